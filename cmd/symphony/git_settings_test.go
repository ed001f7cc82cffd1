package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// gitSetting is one way to set up git, and the result that an issue then has.
type gitSetting struct {
	config string // ~/.gitconfig
	prep   string // lines of the script that make more of it
	// refused is a pattern of the sentence because of which the issue is not handed over.
	// Empty: it is handed over.
	refused string
}

// gitSettings are settings of git that people have. With each, an issue is handed over with
// all that its agent has committed, or the reason is said. The names are those of the scripts.
var gitSettings = map[string]gitSetting{
	"nothing set": {},

	"sign without a key": {
		config: "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[user]\n\tsigningKey = NONE\n",
	},
	"sign with a program that asks": {config: "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = sleep\n"},
	"sign pushes":                   {config: "[push]\n\tgpgSign = if-asked\n"},
	"ssh signature without a key": {
		config: "[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = /nowhere\n",
	},

	"line ends of Windows":   {config: "[core]\n\tautocrlf = true\n\teol = crlf\n"},
	"line ends are taken in": {config: "[core]\n\tautocrlf = input\n\tsafecrlf = true\n"},
	"no modes and no links": {
		config: "[core]\n\tfileMode = false\n\tsymlinks = false\n\tignoreCase = true\n",
	},
	"attributes everywhere": {
		config: "[core]\n\tattributesFile = ~/attributes\n",
		prep:   "exec sh -c 'echo \"* text=auto eol=crlf\" > home/attributes'",
	},
	"a filter that is missing": {
		config: "[filter \"lfs\"]\n\tclean = no-such-lfs clean\n\tprocess = no-such-lfs\n\trequired = true\n",
	},
	"files ignored everywhere": {
		config: "[core]\n\texcludesFile = ~/ignored\n",
		prep:   "exec sh -c 'echo \"*.log\" > home/ignored'",
	},
	"untracked files hidden": {
		config: "[status]\n\tshowUntrackedFiles = no\n[diff]\n\tignoreSubmodules = all\n",
	},

	"hooks everywhere that pass": {
		config: "[core]\n\thooksPath = ~/hooks\n",
		prep: "mkdir home/hooks\nexec sh -c 'printf \"#!/bin/sh\\nexit 0\\n\" > " +
			"home/hooks/pre-commit; chmod 755 home/hooks/pre-commit'",
	},
	"a hook everywhere that refuses pushes": {
		config: "[core]\n\thooksPath = ~/hooks\n",
		prep: "mkdir home/hooks\nexec sh -c 'printf \"#!/bin/sh\\nexit 1\\n\" > home/hooks/pre-push; " +
			"chmod 755 home/hooks/pre-push'",
	},
	"a template with hooks": {
		config: "[init]\n\ttemplateDir = ~/template\n",
		prep: "mkdir home/template/hooks\nexec sh -c 'printf \"#!/bin/sh\\nexit 0\\n\" > " +
			"home/template/hooks/post-checkout; chmod 755 home/template/hooks/post-checkout'",
	},

	"pushes by default": {
		config: "[push]\n\tdefault = nothing\n\tfollowTags = true\n\trecurseSubmodules = on-demand\n" +
			"\tautoSetupRemote = true\n[remote]\n\tpushDefault = other\n",
	},
	"addresses are rewritten": {
		config: "[url \"$WORK/remote\"]\n\tinsteadOf = shop:remote\n",
		prep:   "set repository.url shop:remote",
	},
	"another name for origin": {config: "[clone]\n\tdefaultRemoteName = upstream\n"},
	"objects are checked": {
		config: "[transfer]\n\tfsckObjects = true\n\tcredentialsInUrl = die\n[fetch]\n\tfsckObjects = " +
			"true\n\tprune = true\n\tpruneTags = true\n\twriteCommitGraph = true\n\trecurseSubmodules = true\n",
	},
	"no local remotes": {
		config:  "[protocol \"file\"]\n\tallow = never\n",
		refused: "transport .file. not allowed",
	},
	"references in tables": {config: "[init]\n\tdefaultRefFormat = reftable\n\tdefaultBranch = trunk\n"},
	"longer hashes":        {config: "[init]\n\tdefaultObjectFormat = sha256\n"},
	"branches are set up": {
		config: "[branch]\n\tautoSetupMerge = inherit\n\tautoSetupRebase = always\n[checkout]\n" +
			"\tdefaultRemote = other\n\tguess = false\n[pull]\n\trebase = true\n[merge]\n\tff = only\n",
	},
	"many files": {
		config: "[feature]\n\tmanyFiles = true\n[core]\n\tuntrackedCache = true\n\tsplitIndex = true\n" +
			"\tfsmonitor = true\n[index]\n\tversion = 4\n\tskipHash = true\n",
	},
	"maintenance all the time": {
		config: "[gc]\n\tauto = 1\n\tautoDetach = true\n\tpruneExpire = now\n\tworktreePruneExpire = " +
			"now\n[maintenance]\n\tauto = true\n\tstrategy = incremental\n",
	},
	"packs": {
		config: "[core]\n\tbigFileThreshold = 1\n\tcompression = 0\n[pack]\n\twindowMemory = 1m\n" +
			"\twriteReverseIndex = true\n[repack]\n\twriteBitmaps = true\n[fetch]\n\tunpackLimit = 1\n",
	},
	"colours and pagers": {
		config: "[color]\n\tui = always\n[core]\n\tpager = less\n\tquotePath = false\n\tabbrev = 4\n" +
			"[pager]\n\tlog = cat\n\tstatus = true\n[column]\n\tui = always\n[log]\n\tshowSignature = " +
			"true\n\tdecorate = full\n\tdate = relative\n[format]\n\tpretty = oneline\n",
	},
	"another diff": {
		config: "[diff]\n\texternal = /nowhere/diff\n\tnoprefix = true\n\trenames = copies\n\talgorithm " +
			"= histogram\n\twordRegex = .\n[interactive]\n\tdiffFilter = /nowhere/filter\n[merge]\n" +
			"\tconflictStyle = zdiff3\n\trenormalize = true\n[rerere]\n\tenabled = true\n",
	},
	"an editor and a template": {
		config: "[core]\n\teditor = sleep 1000\n[commit]\n\ttemplate = ~/message\n\tverbose = true\n" +
			"\tcleanup = scissors\n\tstatus = false\n[sequence]\n\teditor = sleep 1000\n",
		prep: "exec sh -c 'echo template > home/message'",
	},
	"other encodings": {
		config: "[i18n]\n\tcommitEncoding = latin1\n\tlogOutputEncoding = latin1\n",
		prep:   "env LANG=de_DE.UTF-8",
	},
	"an identity is required": {config: "[user]\n\tuseConfigOnly = true\n"},
	"names are protected": {
		config: "[core]\n\tprotectNTFS = true\n\tprotectHFS = true\n\tprecomposeUnicode = true\n" +
			"\tsharedRepository = 0640\n\tlogAllRefUpdates = always\n",
	},
	"included files": {
		config: "[include]\n\tpath = /nowhere/config\n[includeIf \"gitdir:/\"]\n\tpath = ~/more\n",
		prep:   "exec sh -c 'printf \"[core]\\n\\tautocrlf = true\\n\" > home/more'",
	},
	"a proxy that is down": {
		config: "[http]\n\tproxy = http://127.0.0.1:1\n\tsslVerify = true\n\tversion = HTTP/1.1\n",
	},
	"credential helpers": {
		config: "[credential]\n\thelper = \"!sleep 1000\"\n\tinteractive = always\n[core]\n\taskPass = " +
			"/nowhere/askpass\n\tsshCommand = ssh -F /nowhere\n",
	},
	"hidden references": {
		config:  "[transfer]\n\thideRefs = refs/heads/main\n",
		refused: "repository_unavailable|repository_empty|no commit at|no branch",
	},
	"traces": {prep: "env GIT_TRACE=1\nenv GIT_TRACE2=1\nenv GIT_CURL_VERBOSE=1"},
	"a trace in a file": {
		config: "[trace2]\n\teventTarget = /nowhere/trace\n\tnormalTarget = 1\n",
	},
	"aliases":       {config: "[alias]\n\tci = commit\n\tstatus = log\n\tpush = !false\n"},
	"a broken file": {config: "[core\n", refused: "bad config"},
	"settings of the system": {
		prep: "env GIT_CONFIG_NOSYSTEM=\nenv GIT_CONFIG_SYSTEM=$WORK/system\nexec sh -c 'printf " +
			"\"[core]\\n\\tautocrlf = true\\n[commit]\\n\\tgpgSign = true\\n[safe]\\n\\tbareRepository " +
			"= explicit\\n\" > system'",
	},
	"bare repositories only by name": {
		config: "[safe]\n\tbareRepository = explicit\n\tdirectory = /nowhere\n",
	},
}

// TestGitSettings lets an agent commit files of each kind, with each of the settings, and
// compares what a fresh clone of the delivered branch has. An issue that is not handed over is
// held, or waits with the reason, after few turns.
func TestGitSettings(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	texts := map[string]string{}
	for name, s := range gitSettings {
		texts[strings.ReplaceAll(name, " ", "_")] = s.script()
	}
	runScripts(t, params(t, "script"), texts)
}

func (s gitSetting) script() string {
	const head = `# An agent's commit, with settings of git.
remote remote
set repository.url $WORK/remote
set handoff.state 'Human Review'
set agent.max_turns 3
exec sh -c 'sed "s,\$WORK,$WORK,g" gitconfig > home/.gitconfig'
env GIT_CONFIG_GLOBAL=$WORK/home/.gitconfig
`
	const over = `
linear add ABC-1 work.agent
settled ABC-1 'Human Review'
env GIT_CONFIG_GLOBAL=/dev/null
env GIT_CONFIG_SYSTEM=/dev/null
exec git clone -q --recurse-submodules -b symphony/ABC-1 remote look
exec sh -c 'test "$(git -C look rev-parse HEAD)" = "$(git -C ws/ABC-1 rev-parse HEAD)"'
exec git -C look cat-file -p HEAD:a/unix.txt
cmp stdout unix
exec git -C look ls-tree -r HEAD
stdout '^100755 .*\trun.sh$'
prints '^1\t1$' sql 'SELECT count(*), max(turns) FROM runs'
symphony show ABC-1
stdout ', pushed, nothing uncommitted$'
`
	const refused = `
linear add ABC-1 work.agent
pass
until '%[1]s' symphony ps --all
prints '^[0-3]$' sql 'SELECT coalesce(sum(turns), 0) FROM runs'
`
	const files = `
-- unix --
one
two
-- work.agent --
sh mkdir a; printf 'one\ntwo\n' > a/unix.txt; printf '#!/bin/sh\n' > run.sh; chmod 755 run.sh; printf '\000\001' > binary; git update-index --add --chmod=+x run.sh; git add -A; git commit -q -m 'work on it'
tool hand_over {"summary": "done"}
`
	text := head + s.prep + "\n"
	if s.refused == "" {
		text += over
	} else {
		text += fmt.Sprintf(refused, s.refused)
	}
	return text + files + "-- gitconfig --\n" + s.config
}
