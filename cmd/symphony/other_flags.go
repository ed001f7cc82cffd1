package main

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// strangeFlag is a flag on a command line whose command does not have it.
type strangeFlag struct {
	name   string   // without dashes
	value  string   // the word that seems to be its value, empty for none
	others []string // the other words behind the name of the command
}

// newStrange reads a flag that the command does not have. The next word may be its value.
func newStrange(word string, behind, before []string) strangeFlag {
	_, value, given := strings.Cut(word, "=")
	if !given && len(behind) > 0 && !strings.HasPrefix(behind[0], "-") {
		value = behind[0]
		behind = behind[1:]
	}
	return strangeFlag{nameOf(word), value, slices.Concat(before, behind)}
}

// firstStrange is the first letter that the command does not have, of letters in one word such as -aq
// of docker; the word itself if it is no such word.
func firstStrange(c *cli.Command, word string) string {
	letters, isShort := strings.CutPrefix(word, "-")
	isLetters := isShort && len(letters) > 1 && len(letters) < 4 && strings.Trim(letters, lowerLetters) == ""
	if !isLetters || cmp.Or(rowOf(c, c.Name, letters), rowOf(c, "", letters)) != "" {
		return word
	}
	for _, letter := range letters {
		if flagOf(c, string(letter)) == nil {
			return "-" + string(letter)
		}
	}
	return word
}

const lowerLetters = "abcdefghijklmnopqrstuvwxyz"

// strangeAlone is the error for a command line of flags alone.
func strangeAlone(words []string) error {
	name := nameOf(words[0])
	if slices.Contains([]string{"v", "V"}, name) {
		return exit.Usage("unknown flag %s: symphony version prints the version", dashed(name))
	}
	return exit.Usage("unknown flag %s, and a command is missing: symphony help lists them", dashed(name))
}

// strangeBefore is the error for a flag in front of the command, such as git -C. Its value stands
// where the command is expected.
func strangeBefore(app *cli.App, words []string) error {
	first := slices.IndexFunc(words, isStrange)
	at := slices.IndexFunc(words, func(word string) bool { return app.Command(word) != nil })
	if at < 0 {
		flag := newStrange(words[first], words[first+1:], nil)
		said := cmp.Or(withWorkflow(psCommand(nil), flag), "symphony help lists them")
		return exit.Usage("unknown flag %s, and a command is missing: %s", dashed(flag.name), said)
	}
	command := app.Command(words[at])
	flag := newStrange(words[first], slices.Concat(words[first+1:at], words[at+1:]), words[:first])
	if flagOf(command, flag.name) == nil || withWorkflow(command, flag) != "" {
		return unknownFlag(command, flag)
	}
	words = slices.Concat([]string{"symphony", words[at]}, words[:at], words[at+1:])
	return exit.Usage("the flags of a command come after it: %s", strings.Join(text.Map(words, text.ShellQuote), " "))
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 || name == "it" { // -it of docker
		return "-" + name
	}
	return "--" + name
}

// ageFlag matches the name of the flag -7d, which means an age.
var ageFlag = text.Pattern(`^[1-9]\d*[smhd]$`)

// unknownFlag is the error for a flag that the command does not have.
func unknownFlag(c *cli.Command, flag strangeFlag) error {
	name := flag.name
	if strings.Contains(name, " ") {
		const message = "%s: %q begins with a dash: put it last, and -- before it"
		return exit.Usage(message, c.Name, "-"+name)
	}
	if takesText(c) && slices.Contains(textFlags, name) {
		const message = "%s: unknown flag %s: the TEXT is an argument, in quotes: %s"
		return exit.Usage(message, c.Name, dashed(name), strings.Replace(c.UsageText, " [flags]", "", 1))
	}
	if ageFlag().MatchString(name) && flagOf(c, "since") != nil {
		return exit.Usage("%s: unknown flag -%s, did you mean --since %s?", c.Name, name, name)
	}
	instead := cmp.Or(
		withWorkflow(c, flag),
		rowOf(c, c.Name, name),
		foreignArgument(c.Name, name),
		choiceMeant(c, flag),
		nearFlag(flagSynonyms[name], c),
		rowOf(c, "", name),
	)
	if instead == "" && len(commandsWith(name)) == 0 {
		instead = nearFlag(misspeltFlag(c, name), c)
	}
	switch {
	case strings.HasPrefix(instead, "did you mean "):
		return exit.Usage("%s: unknown flag %s, %s", c.Name, dashed(name), instead)
	case instead != "":
		return exit.Usage("%s: unknown flag %s: %s", c.Name, dashed(name), instead)
	}
	which := ""
	if owners := commandsWith(name); len(owners) > 0 {
		which = " (of " + strings.Join(owners, ", ") + ")"
	}
	return exit.Usage("%s: unknown flag %s%s; %s", c.Name, dashed(name), which, flagsOf(c))
}

// takesText reports whether a sentence is one of the command's arguments.
func takesText(c *cli.Command) bool { return strings.Contains(c.UsageText, " TEXT") }

// nearFlag is the question for a flag of the command, empty if it has no such flag.
func nearFlag(flag string, c *cli.Command) string {
	if flag == "" || flagOf(c, flag) == nil {
		return ""
	}
	return "did you mean " + dashed(flag) + "?"
}

// withWorkflow is the command line with -w in place of a flag with which other programs name their
// file or their folder, such as git -C and docker compose -f; empty if the value is no such place.
func withWorkflow(c *cli.Command, flag strangeFlag) string {
	if flagOf(c, "workflow") == nil || !slices.Contains(placeFlags, flag.name) {
		return ""
	}
	file := flag.value
	isFolder := file == "." || file == ".." || strings.HasSuffix(file, "/") ||
		strings.Contains(file, "/") && path.Ext(file) == ""
	switch {
	case path.Base(file) == "WORKFLOW.md":
	case path.Ext(file) == ".md" && !takesText(c):
	case isFolder && !slices.Contains([]string{"repo", "R", "r"}, flag.name): // of gh, which names OWNER/NAME
		file = path.Join(file, "WORKFLOW.md")
	default:
		return ""
	}
	words := slices.Concat([]string{"symphony", c.Name}, flag.others, []string{"-w", file})
	return "-w FILE names the workflow: " + strings.Join(text.Map(words, text.ShellQuote), " ")
}

// placeFlags are flags with which other programs name their file or their folder.
var placeFlags = strings.Fields("f file c C config config-file conf settings workflow-file cwd cd directory dir " +
	"chdir workdir working-directory work-tree root-dir project-dir project-directory folder repo r R")

// choiceMeant is the answer to a flag that chooses issues or projects in other words than ours.
func choiceMeant(c *cli.Command, flag strangeFlag) string {
	name := flag.name
	isFilter := slices.Contains(view.FilterKeys, name) || slices.Contains([]string{"state", "assignee", "author"}, name)
	switch {
	case name == "all" && flagOf(c, "filter") != nil:
		example := "status=held"
		if strings.Contains(c.UsageText, "REQUEST") {
			example = "label=docs"
		}
		return "--filter chooses the issues, such as --filter " + example
	case name == "all" && flagOf(c, allProjects) != nil:
		return "--project all is for every project of your account"
	case name == "A" && flagOf(c, allProjects) != nil && flagOf(c, "all") != nil: // of kubectl and docker
		return "did you mean --all, or --project all?"
	case name == "p" && flagOf(c, "port") != nil:
		return nearFlag("port", c)
	case slices.Contains(projectFlags, name) && flagOf(c, allProjects) != nil:
		return "-w FILE names the workflow of one project, --project all is every project of your account; " +
			"symphony projects lists them"
	case slices.Contains(projectFlags, name) && flagOf(c, "workflow") != nil:
		return "-w FILE names the workflow of one project, and symphony projects lists them; --project all works " +
			"with ps, status, report and what changes issues, such as hold"
	case slices.Contains(view.Statuses, view.Status(strings.ReplaceAll(name, "-", "_"))) && flagOf(c, "filter") != nil:
		return "did you mean --filter status=" + strings.ReplaceAll(name, "-", "_") + "?"
	case slices.Contains(view.FilterKeys, name) && flagOf(c, "filter") != nil && flag.value != "":
		return "did you mean --filter " + text.ShellQuote(name+"="+flag.value) + "?"
	case isFilter && flagOf(c, "filter") != nil:
		return "--filter chooses issues by their " + strings.Join(view.FilterKeys, ", ") +
			", such as --filter status=held"
	}
	return ""
}

// projectFlags are flags with which other programs name a project, or something like it.
var projectFlags = strings.Fields("p project projects project-name namespace all-namespaces all-projects " +
	"every-project workspace context")

// longFlags returns the first name of each flag of a command.
func longFlags(c *cli.Command) []string {
	return text.Map(c.Flags, func(f cli.Flag) string { return f.Names()[0] })
}

// flagsOf lists what there is in place of a flag that the command does not have.
func flagsOf(c *cli.Command) string {
	list := text.Filter(longFlags(c), func(flag string) bool { return !slices.Contains(usualFlags, flag) })
	list = text.Map(list, dashed)
	if flagOf(c, "json") != nil {
		list = append(list, "--json")
	}
	if flagOf(c, allProjects) != nil && c.Name != "init" {
		list = append(list, "--project all")
	}
	if flagOf(c, "workflow") != nil {
		list = append(list, "-w FILE")
	}
	switch len(list) {
	case 0:
		return "it takes none"
	case 1:
		return "there is only " + list[0]
	}
	return "there are " + strings.Join(list, ", ")
}

// usualFlags are flags of most commands, which stand at the end of a list, or not at all.
var usualFlags = []string{"workflow", "state-dir", "json", "jq", "help", allProjects}

// commandsWith returns the commands that have a flag, unless most of them have it.
func commandsWith(flag string) (names []string) {
	if len(flag) == 1 || slices.Contains(usualFlags, flag) {
		return nil
	}
	for _, group := range commandGroups() {
		for _, row := range group.rows {
			if flagOf(row.build(nil), flag) != nil {
				names = append(names, row.name)
			}
		}
	}
	if len(names) > 4 {
		return nil
	}
	return names
}

// misspeltFlag returns the flag of the command that a name misspells, or of which it is the
// beginning.
func misspeltFlag(c *cli.Command, name string) string {
	known := text.Filter(longFlags(c), func(flag string) bool { return len(flag) > 1 })
	if near := text.Misspelt(name, known); near != "" && len(name) > 1 {
		return near
	}
	begins := text.Filter(known, func(flag string) bool { return strings.HasPrefix(flag, name) })
	if len(name) > 2 && len(begins) == 1 {
		return begins[0]
	}
	return ""
}

// flagSynonyms map other tools' names of flags to ours.
var flagSynonyms = map[string]string{
	"a":         "all",
	"addr":      "listen",
	"address":   "listen",
	"b":         "body",
	"bind":      "listen",
	"issues":    "path",
	"format":    "json",
	"for":       "timeout",
	"host":      "listen",
	"kind":      "tracker",
	"lines":     "tail",
	"m":         "model",
	"message":   "reason",
	"interface": "listen",
	"ip":        "listen",
	"n":         "dry-run",
	"o":         "json",
	"output":    "json",
	"q":         "quiet",
	"quiet":     "q",
	"s":         "since",
	"t":         "timeout",
	"u":         "until",
	"y":         "yes",
	"template":  "jq",
	"v":         "all",
	"verbose":   "all",
}

// textFlags are flags with which other programs take a text, such as git commit -m.
var textFlags = []string{"m", "message", "text", "comment"}

// timeFlags are flags with which other programs take a time, or the end of one.
var timeFlags = []string{"after", "at", "delay", "duration", "every", "for", "in", "interval", "timeout", "until"}

// otherFlag tells how commands do what users expect of flags that they do not have.
type otherFlag struct {
	// commands are separated by blanks. A row without any counts for every command that can do
	// what it says: it has the flag with which the row begins, an ISSUE or a TEXT as argument, or an
	// output for a pipe.
	commands string
	flags    string // separated by blanks; TIME is for timeFlags, and for a time among the arguments
	meant    string
}

// rowOf returns what the first fitting row of a command says about a flag, empty if none does. The
// rows of all commands have the name "".
func rowOf(c *cli.Command, command, name string) string {
	for _, row := range otherFlags {
		names := strings.Fields(row.flags)
		isNamed := slices.Contains(names, name)
		if slices.Contains(timeFlags, name) && slices.Contains(names, "TIME") {
			isNamed = true
		}
		isFor := row.commands == command
		if command != "" {
			isFor = slices.Contains(strings.Fields(row.commands), command)
		}
		if isNamed && isFor && (command != "" || row.fits(c)) {
			return row.meant
		}
	}
	return ""
}

// fits reports whether a command can do what a row of all commands says.
func (o otherFlag) fits(c *cli.Command) bool {
	first, _, _ := strings.Cut(o.meant, " ") // such as --limit N
	flag, isFlag := strings.CutPrefix(first, "-")
	if isFlag && flagOf(c, strings.TrimPrefix(flag, "-")) == nil {
		return false
	}
	if strings.Contains(o.meant, "the TEXT") && !takesText(c) {
		return false
	}
	if strings.Contains(o.meant, "pipe") && !slices.Contains(printing, c.Name) {
		return false
	}
	return !strings.HasPrefix(o.meant, "the ISSUE") || strings.Contains(c.UsageText, "ISSUE")
}

// Answers that several rows have.
const (
	agentsMachines = "worker.ssh_hosts in WORKFLOW.md names the machines on which agents work"

	forScript  = "--json prints everything for programs, and --jq chooses values of it"
	inFolder   = "-w FILE names the workflow of another folder"
	inTerminal = "symphony takeover ISSUE opens an agent in this terminal"
	keysAre    = "keys and variables are in the environment file, which symphony doctor names"
	lastSeven  = "--since 7d is the last seven days"
	otherLogs  = "--verbose shows everything; --stderr, --worker and --hooks show the other logs"
	otherRuns  = "--run RUN chooses a run; symphony show ISSUE lists them"
	waitsFor   = "it waits until the issue is handed over, or needs a person, and its exit code says which; " +
		"--timeout is how long"
)

// printing are the commands whose output is read, and may go into a pipe.
var printing = strings.Fields("ps issues claims hosts trash projects agents report show logs diff doctor status " +
	"prompt check tick")

// otherFlags has the flags of gh, git, docker, kubectl, systemctl, journalctl, top, and of agents.
var otherFlags = []otherFlag{
	// set up
	{"init", "template", "--example NAME chooses a workflow; symphony help init lists them"},
	{
		"init", "directory dir folder",
		"--path DIRECTORY is the folder of the issues, --root DIRECTORY that of the workspaces; the workflow " +
			"is written into this folder, or where -w FILE says",
	},
	{"init", "token api-key key", "--key-file FILE reads it from a file, so that it is in no history of the shell"},
	{"init", "url", "--endpoint URL is the tracker's API, --repository URL where the code is"},
	{"init", "states", "--active-states STATES are those in which agents work, --review-state STATE that of a handover"},
	{"init", "force f overwrite", "it overwrites nothing: move WORKFLOW.md away, or name another file with -w FILE"},
	{
		"init", "repo R",
		"--project OWNER/NAME is where the issues are, --repository URL or DIRECTORY where the code is",
	},
	{"init", "workspace-root workspace-dir workspaces workspace workdir", "--root DIRECTORY is where the workspaces are"},
	{"init", "dry-run dryrun preview print n", "it overwrites nothing, and lists what it has written: leave it out"},
	{"init", "name", "a project has the name of its folder: leave it out"},
	{"check", "strict", "warnings do not change the exit code: symphony check 2>&1 | grep warning finds them"},
	{"check", "fix", "it changes nothing: symphony edit opens the file"},
	{
		"status check", "quiet q short s porcelain brief summary",
		"it prints few lines, and its exit code says the same: leave it out",
	},
	{"edit", "editor e", "the variable EDITOR names it: EDITOR=nano symphony edit"},
	{"doctor", "only check checks skip host hosts machine", "it makes every check, also of each machine: leave it out"},
	{"doctor", "fix", "it changes nothing; below each line with ✗ is what mends it"},
	{
		"demo", "clean cleanup remove delete destroy stop",
		"--rm removes the folder at the end; without it the demo prints the command that does",
	},
	{"demo", "dir directory path folder o output", "the variable TMPDIR names the directory in which it makes a folder"},
	{"demo", "keep no-rm", "leave it out: without --rm the folder stays"},

	// passes
	{
		"tick", "background d daemon detach",
		"symphony schedule install lets passes run by themselves, in the background",
	},
	{
		"tick", "all",
		"a pass is about one project: -w FILE names it; symphony schedule install runs the passes of each",
	},
	{
		"tick", "project projects",
		"a pass is about one project: -w FILE names it; symphony tick --loop FILE FILE repeats the passes of several",
	},
	{"tick", "host hosts on machine", agentsMachines + "; --listen ADDRESS is where a loop serves the web page"},
	{"tick", "follow f", "symphony logs -f ISSUE follows an agent, and symphony top shows everything live"},
	{"tick", "issue", "symphony run ISSUE is about one issue"},
	{"tick", "limit", "agent.max_concurrent_agents in WORKFLOW.md is how many agents work at once"},
	{"tick", "debug trace vv vvv loglevel verbosity", "--log-level debug logs the pass on stderr"},
	{
		"tick schedule check doctor", "label l state status assignee filter only selector",
		"tracker.required_labels, tracker.active_states and tracker.assignee in WORKFLOW.md choose the issues; " +
			"symphony run ISSUE starts one of them",
	},
	{"tick", "now", "leave it out: a pass begins at once"},
	{"tick", "once", "without --loop a tick is one pass, and ends"},
	{"tick", "TIME", "with --loop, polling.interval_ms in WORKFLOW.md is the time between passes"},
	{
		"schedule", "calendar on-calendar oncalendar cron-expression expression schedule minutely hourly daily weekly",
		noTimes,
	},
	{"schedule", "all project projects", "it is about one project: -w FILE names it; symphony projects lists them"},
	{"schedule", "dry-run n print", "symphony schedule show prints what install would write"},
	{"schedule", "launchd timer", "leave it out: --cron takes cron, and without it it is a timer of systemd or launchd"},
	{"schedule", "name unit", "leave it out: the units have the name of the project's folder"},
	{"schedule", "hours", "there are no hours of work: let cron run symphony resume and symphony pause at these times"},
	{"schedule", "now", "leave it out: the schedule begins at once"},
	{"schedule", "service", "leave it out: it is a timer of systemd, or a job of launchd"},
	{
		"schedule", "systemd",
		"leave it out: it is a timer of systemd where there is one; --cron takes cron in its place",
	},
	{
		"schedule", "TIME",
		"polling.interval_ms in WORKFLOW.md is the time between passes of a timer; --cron runs one every minute",
	},
	{
		"schedule", "user",
		"leave it out: without --system the schedule is one of your account; --run-as ACCOUNT names another",
	},
	{"pause", "TIME", "a pause has no end by itself: symphony resume ends it"},
	{"pause", "reason message m", "a pause has no reason: leave it out"},
	{"resume", "TIME", "it resumes at once: let cron or at run it later"},

	// look
	{
		"ps", "since until last today",
		"it shows what is now, with --all also ended runs; symphony report --since TIME is what was done",
	},
	{"ps", "e x ef aux", "--all also shows issues that were not started, and ended runs"},
	{"ps", "interval refresh every", "--watch prints every second: leave it out"},
	{"ps", "short s brief summary porcelain names", "-q prints only the identifiers of the issues"},
	{"top", "d interval delay refresh watch follow f", "it follows changes by itself: leave it out"},
	{"top", "n once b batch json no-tty 1", "symphony ps prints once, and symphony ps --json for programs"},
	{"top", "all a", "leave it out: without -w FILE it shows every project of your account"},
	{
		"top", "sort s sort-by filter status label state u user grep search reverse wide color no-color limit",
		"its keys do that, and ? lists them; symphony ps has flags for it",
	},
	{"show", "run attempt", "--attempts shows the runs side by side; symphony logs ISSUE --run RUN is about one run"},
	{"show", "logs log l", "symphony logs ISSUE shows them"},
	{"show", "diff patch stat name-only", "symphony diff ISSUE shows it"},
	{"show", "prompt", "symphony prompt ISSUE prints what the agent is told"},
	{"logs", "attempt previous p", otherRuns},
	{"logs", "container c level stdout", otherLogs},
	{"logs", "head", "--all prints all, and | head its beginning"},
	{"logs", "json o output format", "--raw prints the events as JSON, one a line"},
	{"logs", "no-follow", "leave it out: without --follow it ends by itself"},
	{"logs", "until", "--since TIME is where they begin; they end with the newest"},
	{"logs", "debug trace vv vvv log-level loglevel", "--verbose prints more"},
	{"logs", "latest newest", "leave it out: it shows the newest run"},
	{"logs", "watch live tail-f", "did you mean --follow?"},
	{
		"logs", "e errors error failed fail",
		"--stderr shows what the agent wrote there; symphony show ISSUE says why a run failed",
	},
	{"logs", "u unit issue i id name", "the ISSUE is an argument, without a flag"},
	{"diff", "cached staged", "it shows what an agent has changed since the base, committed or not"},
	{
		"diff", "attempts run runs",
		"--attempt A..B is what differs between two runs, by their numbers in symphony show ISSUE --attempts",
	},
	{"diff", "base b from to", "the base is repository.base in WORKFLOW.md"},
	{"report", "format f", forScript},
	{"report", "days last d", lastSeven},
	{"report", "month", "--since 30d is the last thirty days"},
	{"report", "week weekly", lastSeven},
	{"report", "today daily", "--since today is the day so far"},
	{"report", "issue", "symphony show ISSUE is about one issue"},
	{
		"report", "label l status text search grep selector",
		"--by label sums it up by labels; --list --filter label=docs lists the issues with one",
	},
	{"report", "group-by groupby", "--by issue, label or day sums it up by that"},
	{"claims", "force", "--release ISSUE ends the claim of another machine"},
	{"status", "watch w interval", "it prints once: symphony top shows everything live"},
	{"export", "output o file", "--otlp FILE writes into a file"},

	// the web page and the tools
	{
		"serve", "background d daemon detach install service",
		"it runs in the foreground until Ctrl-C: docs/web.md has a unit of systemd that keeps it running",
	},
	{"serve", "mcp stdio", "leave it out: it has the tools at /mcp; docs/mcp.md shows how hosts get them"},
	{"serve", "tools", "the host's address chooses them: /mcp?tools=lean"},
	{"serve", "api ui metrics", "leave it out: it has the page at /, the API at /api/v1 and /metrics"},
	{"serve", "no-mcp no-api no-ui", "it always has all of them; only who has its token can use /mcp"},
	{
		"serve", "no-auth insecure public noauth no-token",
		"acting always needs the token; at 127.0.0.1, the default, every account of this machine may read without it",
	},
	{"serve", "readonly read-only ro", "leave it out: without the token, which it prints, nobody can act"},
	{
		"serve", "cors allow-origin origin origins hostname domain server-name",
		"--allow-host NAME permits the name by which browsers call it",
	},
	{
		"serve", "base-path prefix root-path base-url path subpath",
		"a proxy gives it a name of its own, such as symphony.example.org: it has no path before its pages",
	},
	{"serve", "loop tick schedule", "it runs no passes: symphony tick --loop --port N does, and serves the page, too"},
	{"serve", "reload watch live dev hot", "leave it out: pages follow changes by themselves"},
	{"serve", "stop kill", "Ctrl-C ends it"},
	{"serve", "debug verbose v log-level trace", "it has no log: each page and each answer has its errors"},
	{"serve", "timeout interval", "leave it out: pages follow changes by themselves"},
	{"projects", "w workflow f", "it lists the projects of your account; -w FILE is for the other commands"},
	{"projects", "all a project", "leave it out: it lists all of your account"},
	{"hosts", "check test ping probe status", "leave it out: it asks each machine"},
	{"serve", "open browser web", "open the address that it prints in your browser"},
	{"serve", "ssl tls https cert", "put a proxy with TLS before it, as docs/web.md shows"},
	{
		"serve", "auth token password api-key",
		"the server has a token, which it prints; --token-file FILE gives it one that stays",
	},
	{
		"mcp", "port host http listen transport",
		"an MCP host starts this command and speaks with it over stdin; over HTTP, symphony serve has the tools " +
			"at /mcp",
	},
	{"mcp", "token auth api-key bearer", "over stdin there is none; over HTTP, symphony serve prints the token for /mcp"},
	{"mcp", "model m sandbox approval-policy", "who starts an agent chooses it, as an argument of the tool"},
	{
		"mcp", "yolo full-auto dangerously-skip-permissions full-access danger-full-access",
		"--allow-full-access permits agents without a sandbox; --decide-by NAME is who decides their requests",
	},
	{
		"mcp", "read-only readonly ro allow-tools allowed-tools",
		"--tools LIST chooses groups of tools, and the host which of them its model may call (docs/mcp.md)",
	},
	{"mcp", "debug verbose v log-level trace log-file", "its log is on stderr, where the host keeps it"},
	{"mcp", "stdio", "leave it out: it speaks over stdin and stdout"},

	// issues
	{"issues", "all a", "it lists the issues in active states; --state NAME lists those in another one"},
	{"issues", "assignee", "tracker.assignee in WORKFLOW.md chooses issues by it; a new issue gets one in the tracker"},
	{"issues", "close", "close the issue in the tracker"},
	{"issues", "milestone m", "set it in the tracker"},
	{"issues", "priority", "set it in the tracker, or write priority: high into the file of the issue"},
	{"issues", "title t", "symphony issues new TITLE takes the title without a flag"},
	{"issues", "web w", "symphony open ISSUE opens an issue in the browser"},
	{"issues", "description desc message", "--body TEXT is the text of a new issue"},
	{"issues", "s status column", "--state NAME lists the issues in a state, and is the state of a new issue"},
	{"issues", "file f", "--body-file FILE is the text of a new issue"},
	{
		"issues", "filter search S grep sort limit L",
		"symphony ps --all has --filter, --sort and --limit for the issues",
	},

	// runs
	{
		"run", "background d detach",
		"Ctrl-C ends only this command, and the run goes on; symphony tick starts runs and does not follow them",
	},
	{"run", "agent", "agent.kind in WORKFLOW.md chooses the agent, and agent.by_label by the labels of the issue"},
	{"run", "on host hosts machine node worker", agentsMachines + ", and a run gets the next that is free"},
	{"run", "all", "symphony tick starts all that may run; --filter KEY=VALUE chooses several"},
	{"run", "branch b", "repository.branch in WORKFLOW.md names the branches of issues"},
	{"run", "follow f wait watch", "it follows the run without a flag"},
	{"run", "i it interactive tty", inTerminal},
	{"run", "loop", "symphony tick --loop repeats passes, which start all that may run"},
	{"run", "now", "leave it out: the run begins at once"},
	{
		"run", "prompt p message text comment",
		"the prompt is the text of WORKFLOW.md, and the issue; symphony tell ISSUE TEXT tells a running agent more",
	},
	{"run", "rm", "leave it out: workspace.keep_removed_ms in WORKFLOW.md is how long a workspace stays"},
	{
		"run", "fresh new no-cache clean",
		"symphony retry ISSUE --fresh lets the next run begin a new conversation, in the same workspace",
	},
	{
		"run", "resume continue c session",
		"leave it out: a run goes on with the conversation of the last one",
	},
	{
		"run", "TIME",
		"codex.stall_timeout_ms in WORKFLOW.md ends a run without progress; symphony stop ISSUE ends it now",
	},
	{"stop", "force f kill 9", "leave it out: a run that does not end soon is killed"},
	{"stop", "signal s", "the agent gets ten seconds to end; then it is killed"},
	{"stop", "TIME t", "the agent has ten seconds to end; --no-wait does not wait for that"},
	{"stop", "reason", "it takes no reason: tell why in a comment on the issue"},
	{"hold", "TIME", "a hold has no end by itself: symphony retry ISSUE ends it"},
	{"hold", "all", "symphony pause keeps every issue from starting, and symphony resume ends that"},
	{"hold", "reason message m comment", "a hold has no reason: tell why in a comment on the issue"},
	{"retry run", "host node machine", "worker.ssh_hosts in WORKFLOW.md names the machines; symphony chooses one"},
	{"retry", "TIME", "the issue may run at once: let cron or at run the command later"},
	{"retry", "new clean reset from-scratch no-cache", "--fresh lets the next run begin a new conversation"},
	{"send-back", "state", "it moves the issue back by itself, to a state in which agents work"},
	{"stop hold deliver verify pause unblock", "now", "leave it out: it acts at once"},
	{"retry", "now", "leave it out: the issue is due at once; symphony run ISSUE starts it"},
	{"retry", "failed errored", "--filter status=held chooses held issues; symphony report lists what failed"},
	{"wait", "all any", "it is about one issue: for I in 1 2; do symphony wait $I; done waits for several"},
	{"wait", "for state status until", waitsFor},
	{"wait", "interval", "it looks by itself, each second"},
	{"wait logs", "background d detach", "& behind the command lets the shell run it in the background"},
	{"takeover", "i it interactive tty", "leave it out: it opens the agent in this terminal"},
	{"takeover", "print", "symphony show ISSUE names the workspace, and the command that opens its agent"},
	{
		"deliver", "pr merge squash",
		"it only pushes: repository.deliver in WORKFLOW.md opens pull requests, and merge.when merges them",
	},

	// clean up
	{"prune", "all a", "without ISSUE it is about all finished issues"},
	{"prune", "filter until", "--older-than TIME chooses what has not been used since then, such as 168h"},
	{"backup", "output o file f", "the FILE is an argument: symphony backup FILE"},
	{"restore-state", "input i file f", "the FILE is an argument: symphony restore-state FILE"},
	{"support", "output o file f", "the FILE is an argument: symphony support FILE"},
	{"completion", "shell s", "the shell is an argument: symphony completion bash"},

	{"ps", "state", "symphony issues --state NAME lists the issues in a state of the tracker"},

	// the same for every command that has the flag, or the argument, which is named
	{
		"", "no-color color colour colors no-colour no-ansi plain ascii monochrome",
		"NO_COLOR=1 before the command prints without colours",
	},
	{
		"", "grep pattern match regex search query find keyword",
		"--filter text=WORD lists the issues with a word in their names",
	},
	{"", "csv yaml xml html markdown md pretty tsv json-pretty", forScript},
	{"", "columns fields column field show-fields", "--json FIELD,FIELD prints these fields; --help lists them"},
	{"", "sort-by sortby order order-by", "--sort KEY sorts them"},
	{"", "limit max top head first take per-page page max-count max-results", "--limit N prints only the first N"},
	{"", "limit max top head first take last max-count lines max-results", "--tail N prints only the last N lines"},
	{
		"", "selector l label status field-selector",
		"--filter chooses issues, such as --filter status=held, --filter label=docs or --filter text=WORD",
	},
	{
		"", "debug trace verbose v vv vvv log-level loglevel verbosity",
		"symphony logs ISSUE --verbose shows everything that an agent did, and symphony tick --log-level debug " +
			"what a pass did",
	},
	{
		"", "watch follow live refresh auto-refresh",
		"symphony top shows everything live, and symphony logs -f ISSUE follows an agent",
	},
	{"", "web browser browse", "symphony open ISSUE opens it in the browser, and symphony serve is the web page"},
	{
		"", "days weeks week this-week month months hours age last after from today",
		"--since TIME is where it begins, such as 7d",
	},
	{
		"", "days weeks week month months hours age",
		"--older-than TIME chooses what has not been used since then, such as 168h",
	},
	{
		"", "file text-file body-file from-file input F",
		"\"$(cat FILE)\" in place of the TEXT is what the file contains",
	},
	{"issues projects trash hosts agents report", "q quiet", "--json and --jq print only what a script needs"},
	{"status", "v verbose all-details", "symphony ps shows everything"},
	{"version", "v verbose s short", "leave it out; --json prints everything for programs"},
	{"completion", "install", "symphony help completion says where the script of each shell goes"},
	{"", "silent no-output quiet q", "leave it out, or write > /dev/null behind the command"},
	{"", "token api-key apikey key password secret auth pat e env env-file set-env", keysAre},
	{"", "f force", "nothing has to be forced: leave it out"},
	{"", strings.Join(placeFlags, " "), inFolder},
	{"", "version V", "symphony version prints it"},
	{
		"", "no-input non-interactive noninteractive batch ci assume-yes y yes no-confirm no-prompt",
		"it asks nothing: leave it out",
	},
	{"", "interactive it tty", inTerminal},
	{
		"", "language lang locale",
		"symphony speaks English; the prompt in WORKFLOW.md may ask agents for another language",
	},
	{
		"", "dry-run dryrun simulate what-if whatif preview plan print-only check just-print",
		"symphony tick --dry-run says what a pass would do, and symphony prompt ISSUE what the agent would be told",
	},
	{
		"", "no-verify skip-verify unverified skip-tests",
		"symphony deliver ISSUE --unverified hands over without verify.command",
	},
	{"", "patch stat name-only", "symphony diff ISSUE shows what an agent has changed"},
	{"", "name id issue number", "the ISSUE is an argument, without a flag"},

	{"", "grep pattern match regex search query find keyword", "pipe the output into grep, which chooses lines of it"},
	{"", "reverse", "pipe the output into tac, which reverses it"},
	{"", "count wc total", "pipe the output into wc -l, which counts lines"},
	{"", "limit max head first take per-page page max-count max-results", "pipe the output into head"},
	{"", "wide no-trunc no-truncate long full full-width", "nothing is cut in a pipe: | cat"},
	{"", "no-headers noheaders headers", "in a pipe there are no headings"},
	{"logs", "timestamps t time", "each line has its time"},
}
