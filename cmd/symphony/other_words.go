package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// foreignWord says what symphony has for words that users of other programs type: commands, or
// names of flags.
type foreignWord struct {
	words string // separated by blanks, and in lower case
	meant string // a command or a flag of symphony, or else a sentence
}

// meantBy returns what the row of a word says, empty if there is none.
func meantBy(rows []foreignWord, word string) string {
	for _, row := range rows {
		if slices.Contains(strings.Fields(row.words), strings.ToLower(word)) {
			return row.meant
		}
	}
	return ""
}

// foreignCommands are commands of agents' runners, process managers, package managers and git,
// beside those of otherWords.
var foreignCommands = []foreignWord{
	{
		"daemon install service systemd launchd background autostart timer loop supervise nohup forever " +
			"repeat schedule-install enable-schedule",
		"symphony schedule install lets passes run by themselves, symphony tick --loop runs them in this " +
			"terminal; symphony serve is the web page",
	},
	{"server ui gui http api browser webui frontend portal board kanban listen", "serve"},
	{"tui htop ui-terminal", "top"},
	{
		"launch trigger dispatch submit assign work do begin go process execute play invoke queue-up " +
			"spawn delegate",
		"run",
	},
	{
		"plan dry-run dryrun simulate preview whatif what-if",
		"symphony tick --dry-run says what a pass would do, and symphony prompt ISSUE what the agent " +
			"would be told",
	},
	{"pass once step iterate cycle", "tick"},
	{"runs jobs sessions processes active running builds pipelines overview active-runs working", "ps"},
	{"next ready candidates backlog tickets ticket task pending available", "issues"},
	{
		"summary digest today yesterday week done-today statistics analytics spend spending money tokens " +
			"burn",
		"report",
	},
	{"health healthcheck ping alive uptime probe nagios", "status"},
	{"diagnose diagnostics troubleshoot verify-setup preflight check-env selftest self-test test-setup", "doctor"},
	{"debug trace transcript conversation stdout output messages", "logs"},
	{"result outcome details detail get-issue why reason", "show"},
	{"patch changes changed files changeset compare", "diff"},
	{"message msg chat send steer nudge instruct inform prompt-agent interrupt", "tell"},
	{"respond", "answer"},
	{"confirm yes ok grant permit authorize accept-request", "approve"},
	{"no refuse decline disapprove forbid block", "deny"},
	{"revise redo improve fix rework return bounce request-changes changes-requested feedback", "send-back"},
	{"snooze postpone skip ignore defer delay exclude park shelve freeze mute", "hold"},
	{"unhold unsnooze activate release-hold again repeat-run try unfreeze unpark", "retry"},
	{"halt end quit interrupt-run sigterm stop-all killall terminate-all", "stop"},
	{"ship publish submit-pr create-pr open-pr pr-create push-branch upload", "deliver"},
	{
		"undo revert rollback discard drop",
		"symphony send-back ISSUE TEXT has an agent change a result; symphony merges nothing, so that " +
			"there is nothing to revert: delete the branch of a result that you do not want",
	},
	{"rebase squash cherry-pick amend", "agents commit and rebase: symphony send-back ISSUE TEXT asks for it"},
	{
		"workspace workspaces worktree worktrees cd path where",
		"symphony show ISSUE names the workspace, symphony trash lists those that were removed",
	},
	{"cleanup purge clear tidy free wipe vacuum", "prune"},
	{"trash-list deleted removed bin recycle-bin", "trash"},
	{
		"disk du df space size",
		"symphony prune --dry-run says how much room it would free; symphony doctor says how much is left",
	},
	{"project workflows repos repositories accounts namespaces contexts use-context context switch", "projects"},
	{"mv rename relocate move-project", "projects move"},
	{"register link connect adopt import add-project", "init"},
	{"machines nodes ssh cluster servers runners fleet", "hosts"},
	{"workers", "ps"},
	{"claim lock locks leases lease who", "claims"},
	{"unlock release unclaim steal", "symphony claims --release ISSUE ends the claim of another machine"},
	{"snapshot dump save archive", "backup"},
	{"load restore-backup import-state", "restore-state"},
	{"bugreport bug-report bug report-bug bundle crash sos collect", "support"},
	{"completions autocomplete bash-completion zsh-completion shell-completion", "completion"},
	{"whoami me account user users signin sign-in signup", loginTask},
	{
		"env environment secrets secret variables vars token key keys credentials set-key apikey api-key",
		"keys and variables are in the environment file, which symphony doctor names; symphony init " +
			"stores the key of the tracker there",
	},
	{
		"set settings option options get-config preferences setting configure reconfigure params " +
			"key-values yaml",
		"edit",
	},
	{
		"model models agent-model llm",
		"codex.model or agent.model in WORKFLOW.md is the model of all agents, and symphony run --model " +
			"NAME that of one run",
	},
	{
		"budget limit limits quota rate-limit ratelimit",
		"agent.budget_per_day in WORKFLOW.md limits a day and agent.max_tokens an issue; symphony report " +
			"says what was used",
	},
	{
		"concurrency parallel",
		"agent.max_concurrent_agents in WORKFLOW.md is how many agents work at once; symphony edit " +
			"changes it",
	},
	{
		"docs doc man manual guide tutorial quickstart readme documentation examples example usage-help " +
			"about license",
		"symphony help lists the commands, and symphony help COMMAND explains one; docs/README.md is the " +
			"documentation",
	},
	{"hooks hook", "hooks are keys of WORKFLOW.md, and symphony logs ISSUE --hooks shows their output"},
	{
		"metrics prometheus telemetry otel",
		"symphony serve has /metrics, monitor.metrics_file in WORKFLOW.md writes them to a file, and " +
			"symphony export sends finished runs to OpenTelemetry",
	},
	{"mcp-server mcp-serve stdio", "mcp"},
	{
		"milestone label labels labels-add assignees state transition move resolve finish " +
			"mark-done",
		"states and labels are changed in the tracker, or in the file of an issue; symphony show ISSUE " +
			"has its address",
	},
	{
		"estimate",
		"symphony report says what issues have cost so far; symphony prompt ISSUE is what an agent is " +
			"told",
	},
	{"sandbox", "agent.sandbox in WORKFLOW.md chooses it, and symphony doctor tries it"},
}

// Answers that flags of several names have.
const (
	byFilter   = "--filter chooses issues, such as --filter status=held, --filter label=docs or --filter text=WORD"
	byGrep     = "pipe the output into grep, which chooses lines of it"
	byHead     = "pipe the output into head"
	forScript  = "--json prints everything for programs, and --jq chooses values of it"
	inFolder   = "-w FILE names the workflow of another folder"
	inTerminal = "symphony takeover ISSUE opens an agent in this terminal"
	keysAre    = "keys and variables are in the environment file, which symphony doctor names"
)

// foreignFlags are flags of other programs that mean the same for each command. A row whose meaning
// begins with a flag counts only for commands that have that flag.
var foreignFlags = []foreignWord{
	{
		"no-color color colour colors no-colour no-ansi plain ascii monochrome",
		"NO_COLOR=1 before the command prints without colours",
	},
	{"c config config-file conf settings workflow-file", inFolder},
	{"cwd directory chdir workdir working-directory work-tree root-dir repo r project-dir", inFolder},
	{
		"grep pattern match regex i search query find keyword",
		"--filter text=WORD lists the issues with a word in their names",
	},
	{"grep pattern match regex i search query find keyword", byGrep},
	{"csv yaml xml html markdown md pretty tsv json-pretty", forScript},
	{"columns fields column field show-fields", "--json FIELD,FIELD prints these fields; --help lists them"},
	{"sort-by sortby order order-by", "--sort KEY sorts them"},
	{"reverse", "pipe the output into tac, which reverses it"},
	{"count wc total number", "pipe the output into wc -l, which counts lines"},
	{"limit max top head first take per-page page max-count max-results", "--limit N prints only the first N"},
	{"limit max top head first take last max-count lines max-results", "--tail N prints only the last N lines"},
	{"limit max top head first take per-page page max-count max-results", byHead},
	{"wide no-trunc no-truncate long full full-width", "nothing is cut in a pipe: | cat"},
	{"selector l label status", byFilter},
	{
		"watch follow live refresh auto-refresh",
		"symphony top shows everything live, and symphony logs -f ISSUE follows an agent",
	},
	{"web browser browse", "symphony open ISSUE opens it in the browser, and symphony serve is the web page"},
	{"debug trace vv vvv log-level loglevel", "--verbose prints more"},
	{
		"debug trace vv vvv log-level loglevel verbosity",
		"symphony logs ISSUE --verbose shows everything that an agent did, and symphony tick --log-level " +
			"debug what a pass did",
	},
	{
		"namespace all-namespaces projects all-projects every-project workspace context",
		"--project all is about every project of your account, -w FILE about one",
	},
	{"days weeks week this-week month months hours age last after from", "--since TIME is where it begins, such as 7d"},
	{"days weeks week month months hours age", "--older-than TIME chooses what has not been used since then, such as 7d"},
	{"file text-file body-file from-file input", "\"$(cat FILE)\" in place of the TEXT is what the file contains"},
	{"quiet q short s porcelain brief summary", "it prints few lines, and its exit code says the same: leave it out"},
	{"silent no-output", "leave it out, or send the output to /dev/null"},
	{"token api-key apikey key password secret auth pat e env env-file set-env", keysAre},
	{"version", "symphony version prints it"},
	{
		"no-input non-interactive noninteractive batch ci assume-yes y yes no-confirm no-prompt",
		"it asks nothing: leave it out",
	},
	{"interactive it tty", inTerminal},
	{
		"language lang locale",
		"symphony speaks English; the prompt in WORKFLOW.md may ask agents for another language",
	},
	{
		"dry-run dryrun simulate what-if whatif preview plan print-only check just-print",
		"symphony tick --dry-run says what a pass would do, and symphony prompt ISSUE what the agent " +
			"would be told",
	},
	{"no-headers noheaders headers", "in a pipe there are no headings"},
	{
		"no-verify skip-verify unverified skip-tests",
		"symphony deliver ISSUE --unverified hands over without verify.command",
	},
	{"timestamps t time", "each line has its time"},
	{"name id issue number", "the ISSUE is an argument, without a flag"},
}

// issueTasks are subcommands of gh issue and of other programs.
var issueTasks = []foreignWord{
	{"view get describe", "show"},
	{"add create", "issues new"},
	{
		"edit update set modify body title",
		"a text is changed in the tracker, or in the file of an issue; symphony show ISSUE has its address",
	},
	{
		"close reopen delete remove rm resolve complete finish done move mv transition state status assign " +
			"unassign assignee label labels priority transfer develop pin unpin lock unlock",
		"states, labels and assignees are changed in the tracker, or in the file of an issue; symphony show " +
			"ISSUE has its address",
	},
	{
		"comment comments note reply",
		"symphony tell ISSUE TEXT is for an agent at work, symphony send-back ISSUE TEXT for its result; " +
			"other comments are written in the tracker",
	},
}

// unknownTask is the end of an error about words behind issue or issues, such as edit 7: the command,
// or the sentence, that is meant; empty if nothing is. Flags are left out.
func unknownTask(words []string) string {
	words = text.Filter(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if len(words) == 0 {
		return ""
	}
	argument := strings.Join(words[1:], " ")
	meant := meantBy(issueTasks, words[0])
	switch {
	case issueShaped(words[0]) || text.IsNumber(words[0]):
		meant = "show " + words[0]
	case meant == "issues new", words[0] == "new":
		meant = "issues new " + text.ShellQuote(cmp.Or(argument, "TITLE"))
	case meant == "show", meant == "" && hasRow(words[0]) && words[0] != "issues":
		meant = cmp.Or(meant, words[0]) + " " + cmp.Or(argument, "ISSUE")
	case meant != "":
		return ": " + meant
	default:
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", meant)
}

// hasRow reports whether a word is a command of the help.
func hasRow(word string) bool {
	return slices.ContainsFunc(commandGroups(), func(group commandGroup) bool {
		return slices.ContainsFunc(group.rows, func(row commandRow) bool { return row.name == word })
	})
}

// foreignArguments are arguments of commands that take none of that kind, such as the subcommands of
// other programs.
var foreignArguments = map[string]string{
	"hosts add":     "worker.ssh_hosts in WORKFLOW.md names the machines",
	"hosts remove":  "worker.ssh_hosts in WORKFLOW.md names the machines",
	"trash clean":   emptyTrash,
	"trash clear":   emptyTrash,
	"trash delete":  emptyTrash,
	"trash empty":   emptyTrash,
	"trash purge":   emptyTrash,
	"trash prune":   emptyTrash,
	"trash rm":      emptyTrash,
	"trash restore": "symphony restore ISSUE takes a workspace out of the trash",
}

const emptyTrash = "symphony prune empties the trash, and asks before"

// foreignArgument says what a word means as an argument of a command that lists something; empty if
// that is not known.
func foreignArgument(command, word string) string {
	lists := []string{"claims", "hosts", "ps", "trash"}
	if slices.Contains(lists, command) && slices.Contains([]string{"list", "ls"}, word) {
		return "it lists them without an argument"
	}
	return foreignArguments[command+" "+word]
}

// foreignFlag returns what a flag of another program means for a command, empty if no row says so.
func foreignFlag(c *cli.Command, name string) string {
	for _, row := range foreignFlags {
		if !slices.Contains(strings.Fields(row.words), name) {
			continue
		}
		flag, _, isFlag := strings.Cut(strings.TrimPrefix(row.meant, "--"), " ")
		isFlag = isFlag && strings.HasPrefix(row.meant, "--")
		isArgument := strings.HasPrefix(row.meant, "the ISSUE")
		isText := strings.Contains(row.meant, "the TEXT")
		if isText && !strings.Contains(c.UsageText, " TEXT") {
			continue
		}
		if isFlag && flagOf(c, flag) == nil || isArgument && !strings.Contains(c.UsageText, "ISSUE") {
			continue
		}
		return row.meant
	}
	return ""
}

// settingFlag returns the key of WORKFLOW.md for what a user wants of a flag, such as --max-agents of
// tick; empty for a command that takes no such wishes, and for a word of no key.
func settingFlag(c *cli.Command, name string) string {
	if !slices.Contains([]string{"init", "run", "tick", "schedule", "demo", "doctor", "check"}, c.Name) {
		return ""
	}
	meant := workflow.Setting(name)
	if meant == "" || strings.Contains(meant, " ") {
		return meant
	}
	return meant + " in WORKFLOW.md sets it: symphony edit opens the file"
}

// misspeltFlag returns the flag that a name misspells, or of which it is the beginning.
func misspeltFlag(name string, known []string) string {
	if near := text.Misspelt(name, known); near != "" {
		return near
	}
	begins := text.Filter(known, func(flag string) bool { return strings.HasPrefix(flag, name) })
	if len(name) > 2 && len(begins) == 1 {
		return begins[0]
	}
	return ""
}
