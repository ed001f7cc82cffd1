package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/setup"
	"github.com/symphony-cron/symphony/internal/text"
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
			"repeat schedule-install enable-schedule install-service install-schedule",
		"symphony schedule install lets passes run by themselves, symphony tick --loop runs them in this " +
			"terminal; symphony serve is the web page",
	},
	{"server ui gui http api browser webui frontend portal board kanban listen", "serve"},
	{"tui htop ui-terminal", "top"},
	{
		"launch trigger dispatch submit work do begin go process execute play invoke queue-up " +
			"spawn delegate",
		"run",
	},
	{
		"plan dry-run dryrun simulate preview whatif what-if",
		"symphony tick --dry-run says what a pass would do, and symphony show --prompt ISSUE what the agent " +
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
	{"snooze postpone skip ignore defer delay exclude park shelve freeze mute", "stop --after-run"},
	{"unhold unsnooze activate release-hold again repeat-run try unfreeze unpark", "retry"},
	{"halt end quit interrupt-run sigterm stop-all killall terminate-all", "stop"},
	{"ship publish submit-pr create-pr open-pr pr-create push-branch upload", "deliver"},
	{
		"undo revert rollback discard drop",
		"symphony send-back ISSUE TEXT has an agent change a result; delete the branch of a result that you do " +
			"not want, and revert with git what is merged",
	},
	{"rebase squash cherry-pick amend", "agents commit and rebase: symphony send-back ISSUE TEXT asks for it"},
	{
		"workspace workspaces worktree worktrees cd cp scp path where",
		"symphony show ISSUE names the workspace, symphony restore lists those that were removed",
	},
	{"cleanup purge clear tidy free wipe vacuum", "prune"},
	{"trash-list deleted removed bin recycle-bin trash", "restore"},
	{
		"disk du df space size",
		"symphony prune --dry-run says how much room it would free; symphony doctor says how much is left",
	},
	{"project workflows repos repositories accounts namespaces contexts use-context context switch", "projects"},
	{"mv rename relocate move-project", "projects move"},
	{"register link connect adopt add-project", "init"},
	{
		"import",
		"symphony restore-state FILE makes the state from a backup, symphony issues new TITLE adds an issue, and " +
			"symphony init writes the WORKFLOW.md of a project",
	},
	{"hosts nodes ssh cluster servers runners fleet", "machines"},
	{"workers", "ps"},
	{"claims claim lock locks leases lease who", "machines"},
	{
		"release unlock unclaim steal",
		"symphony retry ISSUE ends a hold, and symphony machines --release ISSUE the claim of another machine",
	},
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
			"key-values yaml edit config workflow",
		"WORKFLOW.md has the settings, and symphony check checks them",
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
		"agent.max_concurrent_agents in WORKFLOW.md is how many agents work at once; symphony check checks it",
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
		"symphony serve has /metrics, and monitor.ping_url in WORKFLOW.md tells a check of each pass",
	},
	{"mcp-server mcp-serve stdio", "mcp"},
	{
		"webhook webhooks hook-server",
		"symphony serve takes POST /api/v1/refresh, which runs a pass at once: docs/recipes.md has a webhook",
	},
	{
		"remote remotes",
		"repository.url in WORKFLOW.md is the repository, and worker.ssh_hosts are machines; symphony check checks them",
	},
	{
		"assign unassign priority milestone label labels labels-add assignees state transition move resolve finish " +
			"mark-done",
		"states and labels are changed in the tracker, or in the file of an issue; symphony show ISSUE " +
			"has its address, or names the file",
	},
	{
		"estimate",
		"symphony report says what issues have cost so far; symphony show --prompt ISSUE is what an agent is " +
			"told",
	},
	{"sandbox", "agent.sandbox in WORKFLOW.md chooses it, and symphony doctor tries it"},
}

// issueTasks are subcommands of gh issue and of other programs.
var issueTasks = []foreignWord{
	{"view get describe", "show"},
	{"add create", "issues new"},
	{
		"edit update set modify body title",
		"a text is changed in the tracker, or in the file of an issue; symphony show ISSUE has its address, or names " +
			"the file",
	},
	{
		"close reopen delete remove rm resolve complete finish done move mv transition state status assign " +
			"unassign assignee label labels priority transfer develop pin unpin lock unlock",
		"states, labels and assignees are changed in the tracker, or in the file of an issue; symphony show " +
			"ISSUE has its address, or names the file",
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
	case isIssueName(words[0]):
		meant = "show " + words[0]
	case meant == "issues new", words[0] == "new":
		meant = "issues new " + text.ShellQuote(cmp.Or(argument, "TITLE"))
	case meant == "show", meant == "" && hasRow(words[0]) && words[0] != "issues":
		meant = cmp.Or(meant, words[0]) + " " + cmp.Or(argument, "ISSUE")
	case meant != "":
		return ": " + ofIssue(meant, words[1:])
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
	"doctor agent":      everyCheck,
	"doctor codex":      everyCheck,
	"doctor git":        everyCheck,
	"doctor network":    everyCheck,
	"doctor repository": everyCheck,
	"doctor sandbox":    everyCheck,
	"doctor schedule":   everyCheck,
	"doctor tracker":    everyCheck,
}

const (
	everyCheck = "symphony doctor makes every check"
)

// foreignArgument says what a word means as an argument of a command that lists something; empty if
// that is not known.
func foreignArgument(command, word string) string {
	lists := []string{"machines", "ps"}
	if slices.Contains(lists, command) && slices.Contains([]string{"list", "ls"}, word) {
		return "it lists them without an argument"
	}
	isTracker := slices.Contains(setup.TrackerNames(), word)
	switch {
	case isTracker && command == "check":
		return "--tracker takes no value: it asks the tracker of WORKFLOW.md, too"
	case isTracker && command == "init":
		return "did you mean --tracker " + word + "?"
	}
	return foreignArguments[command+" "+word]
}
