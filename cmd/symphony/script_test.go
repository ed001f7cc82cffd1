package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
)

// suiteMargin is the time before the test binary's timeout at which a command that hangs fails
// its script.
const suiteMargin = 30 * time.Second

// TestScript runs the scripts in testdata/script, and with SYMPHONY_TEST=all those in
// testdata/all, with the real program, real processes and a real database. Linear is a fake in
// this process; the agent is scripted.
func TestScript(t *testing.T) {
	t.Parallel()
	p := params(t, "script")
	if test.All() {
		p.Dir = "" // otherwise the files are ignored
		for _, dir := range []string{"script", "all"} {
			p.Files = append(
				p.Files,
				test.Must(filepath.Glob(filepath.Join(moduleRoot, "testdata", dir, "*.txtar")))...)
		}
	}
	testscript.Run(t, p)
}

// TestRealCodex runs the scripts in testdata/codex with the real codex on a mock model.
func TestRealCodex(t *testing.T) {
	test.Expensive(t)
	requireCodex(t)
	t.Parallel()
	testscript.Run(t, withCodex(params(t, "codex")))
}

// TestStacks lets init write the workflow of a repository for each stack in testdata/stack,
// with the tools of that stack, and the real codex work by it.
func TestStacks(t *testing.T) {
	test.Expensive(t)
	requireCodex(t)
	t.Parallel()
	texts := map[string]string{}
	for _, path := range test.Must(filepath.Glob(filepath.Join(moduleRoot, "testdata", "stack", "*.txtar"))) {
		begin, files, _ := strings.Cut(string(test.Must(os.ReadFile(path))), "\n-- ")
		texts[strings.TrimSuffix(filepath.Base(path), ".txtar")] = begin + "\n" + made(
			"stack.txtar",
		) + "-- " + files
	}
	if _, err := os.Stat("/usr/share/maven-repo/org/apache/maven/surefire/surefire-junit4"); err != nil {
		t.Log("java is left out: it needs Debian's packages maven-debian-helper and junit4")
		delete(texts, "java")
	}
	runScripts(t, withCodex(params(t, "codex")), texts)
}

// withCodex returns the params of scripts with the real codex as their agent.
func withCodex(p testscript.Params) testscript.Params {
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("AGENT", os.Getenv("SYMPHONY_TEST_CODEX")+" app-server")
		return setup(env)
	}
	return p
}

// requireCodex skips a test that needs the real codex if there is none.
func requireCodex(t *testing.T) {
	t.Helper()
	if os.Getenv("SYMPHONY_TEST_CODEX") == "" {
		t.Skip("set SYMPHONY_TEST_CODEX to a codex binary to run this test")
	}
	if strings.HasPrefix(os.TempDir(), "/dev/") {
		t.Fatal("codex's sandbox has its own /dev: set TMPDIR to a directory that is not below /dev")
	}
}

// made reads a file of testdata/made, which the tests fill in.
func made(name string) string {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "testdata", "made", name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// runScripts runs scripts that a test has generated. The keys are their names.
func runScripts(t *testing.T, p testscript.Params, texts map[string]string) {
	t.Helper()
	p.Dir = ""
	p.UpdateScripts = false
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		path := filepath.Join(dir, name+".txtar")
		if err := os.WriteFile(path, []byte(texts[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Files = append(p.Files, path)
	}
	testscript.Run(t, p)
}

func params(t *testing.T, dir string) testscript.Params {
	deadline, bounded := t.Deadline()
	if !bounded {
		deadline = time.Now().Add(time.Hour)
	}
	return testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", dir),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Deadline:            deadline.Add(-suiteMargin),
		Setup:               setupScript,
		Cmds:                commands(),
		Condition:           condition,
	}
}

// canSandbox reports whether bubblewrap is installed and may make namespaces.
func canSandbox() bool {
	options := strings.Fields("--unshare-user --unshare-pid --unshare-net --ro-bind / / --proc /proc true")
	return exec.Command("bwrap", options...).Run() == nil
}

// canServeSSH reports whether an ssh server can be started that logs in this account.
func canServeSSH() bool {
	_, err := os.Stat("/run/sshd") // which only a server of root needs
	_, missing := exec.LookPath("/usr/sbin/sshd")
	// A server that is not root's logs in its own account alone, which may have no shell.
	entry, _ := exec.Command("getent", "passwd", strconv.Itoa(os.Geteuid())).Output()
	locked := bytes.Contains(entry, []byte("/nologin")) || bytes.Contains(entry, []byte("/false"))
	return missing == nil && !locked && (err == nil || os.Geteuid() != 0)
}

// scriptCommand implements a command of the scripts; neg is true after an exclamation mark.
type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

// commands returns the commands of all scripts. The keys are their usage: [ARG] may be
// omitted, ARG... may be repeated, and only a command that begins with [!] may be negated.
func commands() map[string]scriptCommand {
	byUsage := map[string]scriptCommand{
		"[!] alive PATTERN":                          aliveCmd,
		"clock DURATION|TIME":                        clockCmd,
		"machine NAME [DURATION]":                    machineCmd,
		"due":                                        dueCmd,
		"examples DOCUMENT":                          examplesCmd,
		"free-port NAME":                             freePortCmd,
		"exits CODE COMMAND [ARG...]":                exitsCmd,
		"fails CODE PATTERN COMMAND [ARG...]":        failsCmd,
		"git-serve":                                  gitServeCmd,
		"gitea VERB [ARG...]":                        giteaCmd,
		"jira VERB [ARG...]":                         jiraCmd,
		"github VERB [ARG...]":                       githubCmd,
		"gitlab VERB [ARG...]":                       gitlabCmd,
		"gone PATTERN":                               goneCmd,
		"healthchecks VERB [ARG]":                    healthchecksCmd,
		"hold-lock TRIGGER":                          holdLockCmd,
		"http METHOD PATH [HEADER|BODY...]":          httpCmd,
		"install-program":                            installProgramCmd,
		"json FILE PATH [PATTERN]":                   jsonCmd,
		"keep NAME PATH":                             keepCmd,
		"large-state":                                largeStateCmd,
		"linear VERB [ARG...]":                       linearCmd,
		"[!] mcp VERB|@NAME [ARG...]":                mcpCmd,
		"model VERB [ARG...]":                        modelCmd,
		"no-secret [EXCEPT...]":                      noSecretCmd,
		"other-linear":                               otherLinearCmd,
		"pass [TICK-FLAG...]":                        passCmd,
		"pidof NAME PATTERN":                         pidofCmd,
		"press KEY PATTERN":                          pressCmd,
		"prints PATTERN COMMAND [ARG...]":            printsCmd,
		"question HEADING [later]":                   questionCmd,
		"quiet [TICK-FLAG...]":                       quietCmd,
		"recorded PID|FILE [START]":                  recordedCmd,
		"registry [down]":                            registryCmd,
		"release-lock":                               releaseLockCmd,
		"remote DIRECTORY":                           remoteCmd,
		"serve [FLAG|WORKFLOW...]":                   serveCmd,
		"set SECTION.KEY [VALUE...]":                 setCmd,
		"settled ISSUE [STATE...]":                   settledCmd,
		"shown DOCUMENT HEADING FILE [FILE...]":      shownCmd,
		"signal TERM|INT|HUP|KILL|STOP|CONT PATTERN": signalCmd,
		"sql QUERY":                                  sqlCmd,
		"[!] symphony ARG...":                        symphonyCmd,
		"tmux VERB [ARG...]":                         tmuxCmd,
		"tracker VERB [ARG...]":                      trackerCmd,
		"tries":                                      triesCmd,
		"until PATTERN COMMAND [ARG...]":             untilCmd,
		"warm-go":                                    warmGoCmd,
		"wire-like NAME [N]":                         wireLikeCmd,
		"working ISSUE":                              workingCmd,
	}
	maps.Copy(byUsage, systemCommands())
	cmds := map[string]scriptCommand{}
	for usage, do := range byUsage {
		words := strings.Fields(strings.TrimPrefix(usage, "[!] "))
		least := 0
		most := len(words) - 1
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "[") {
				least++
			}
			if strings.Contains(word, "...") {
				most = math.MaxInt
			}
		}
		cmds[words[0]] = func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) < least || len(args) > most || neg && !strings.HasPrefix(usage, "[!]") {
				ts.Fatalf("usage: %s", usage)
			}
			do(ts, neg, args)
		}
	}
	return cmds
}

// condition evaluates a condition: [all]: SYMPHONY_TEST is set; [root]; [mount]: file systems
// can be mounted; [freezer]: processes can be frozen; [unshare]: namespaces can be created;
// [sshd]: an ssh server can be started; [slurm], [sge]: its daemons are installed; [docker],
// [podman]: it is installed, and this process may run containers; [tmux], [bash], [zsh],
// [fish], [gh], [python3]: the program is installed.
func condition(name string) (bool, error) {
	switch name {
	case "all":
		return test.All(), nil
	case "pictures":
		return os.Getenv("UPDATE_PICTURES") != "", nil
	case "root":
		return os.Geteuid() == 0, nil
	case "mount":
		return canMount(), nil
	case "freezer":
		return canFreeze(), nil
	case "unshare":
		return canUnshare(), nil
	case "bwrap":
		return canSandbox(), nil
	case "sshd":
		return canServeSSH(), nil
	case "gitea":
		return giteatest.Exists(), nil
	case "slurm":
		_, err := exec.LookPath("slurmctld")
		_, missing := exec.LookPath("munged")
		return err == nil && missing == nil, nil
	case "sge":
		_, err := exec.LookPath("sge_qmaster")
		_, missing := exec.LookPath("sge_execd")
		return err == nil && missing == nil, nil
	case "docker":
		return canRunContainers("dockerd"), nil
	case "tmux":
		return hasTmux(), nil
	case "bash", "zsh", "fish", "gh", "python3":
		_, err := exec.LookPath(name)
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// canRunContainers reports whether a daemon or program for containers is installed, and this
// process may mount what it needs.
func canRunContainers(program string) bool {
	_, missing := exec.LookPath(program)
	_, noRunc := exec.LookPath("runc")
	return missing == nil && noRunc == nil && os.Geteuid() == 0 && canMount()
}

// stage is the state that the commands of one script share.
type stage struct {
	t       testscript.T
	env     *testscript.Env // of the setup
	dirs    []string        // those by which the script's processes are recognized
	vars    []string        // those that commands have set
	tracker scriptTracker   // nil: Linear
	linear  *lineartest.Server
	// the Linear workspace that the command linear does not change at present; may be nil
	other   *lineartest.Server
	model   scriptModel // nil without a real agent
	github  *githubtest.Server
	gitea   *giteaTracker      // nil unless the script has one
	gitlab  *gitlabtest.Server // nil unless the script has one
	jira    *jiraTracker       // nil unless the script has one
	service *checkedService    // nil until healthchecks start
	hosts   map[string]*mcpHost
	// registry is the server of packages, nil for none.
	registry *httptest.Server
	asked    []string     // headings of docs/questions.md whose commands have run
	terminal *multiplexer // nil until tmux start
	// release releases the project lock that hold-lock took.
	release func() error
}

type stageKey struct{}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

const markName = "SYMPHONY_TEST_MARK"

// setupScript gives each script its own home, Linear and agent. A process that is left at the
// end fails the script.
func setupScript(env *testscript.Env) error {
	server := lineartest.New(lineartest.Config{
		Validate: linearschema.Validate,
		Key:      "lin_api_" + strings.Repeat("secret", 3),
	})
	seed := lineartest.Seed{Projects: []lineartest.SeedProject{
		{
			Name:        "Demo",
			SlugID:      "demo",
			Description: "A shop with one shelf.",
		}, {
			Name:   "Second",
			SlugID: "second",
		},
	}}
	seed.Users = []lineartest.SeedUser{
		{
			Name:  "Robin Doe",
			Email: "robin@example.com",
		}, {
			Name:  "Kim Poe",
			Email: "kim@example.com",
		}, {
			Name:  "Eve Roe",
			Email: "eve@example.com",
		},
	}
	seed.Teams = []lineartest.SeedTeam{{
		Key:  "ABC",
		Name: "Alphabet",
	}, {
		Key:  "OPS",
		Name: "Operations",
	}}
	if err := server.Load(seed); err != nil {
		return err
	}
	server.Start()
	env.Defer(server.Close)
	set := &stage{
		env:    env,
		dirs:   []string{env.WorkDir},
		linear: server,
		t:      env.T(),
		github: newGitHub(env.T(), env.Defer, "team/app", ""),
	}
	env.Values[stageKey{}] = set
	home := filepath.Join(env.WorkDir, "home")
	codexHome := filepath.Join(env.WorkDir, "codex-home")
	for _, dir := range []string{home, codexHome} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	mark := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	env.Setenv(markName, mark)
	env.Defer(func() { validateDocuments(env.T(), env.Getenv(recordVar)) })
	env.Defer(func() { sweep(env.T(), mark, set.dirs) })
	env.Defer(func() { logWorkers(env) })
	// The agent is given by its path, because login shells have a different PATH.
	fake, err := inPath(env.Getenv("PATH"), "fake-codex")
	if err != nil {
		return err
	}
	program, err := inPath(env.Getenv("PATH"), "symphony")
	if err != nil {
		return err
	}
	other, err := inPath(env.Getenv("PATH"), "fake-acp")
	if err != nil {
		return err
	}
	if path := os.Getenv("SYMPHONY_TEST_CODEX"); path != "" {
		model, err := setupCodex(env, path, codexHome)
		if err != nil {
			return err
		}
		set.model = model
	}
	agent := cmp.Or(env.Getenv("AGENT"), fake+" app-server --home "+codexHome)
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		toolsVar:             os.Getenv(toolsVar),
		"EXAMPLES":           filepath.Join(root, "examples"),
		"HOME":               home,
		"CODEX_HOME":         codexHome,
		"AGENT":              agent,
		"ACP_AGENT":          other + " --home ~/sessions",
		"PROGRAM":            program,
		"PASTED_INTO":        "bash",
		"DONE":               "Done",
		"TMPDIR":             env.WorkDir + "/.tmp",
		"PATIENCE":           test.Patience().String(),
		"XDG_STATE_HOME":     "",
		"XDG_CONFIG_HOME":    "",
		"STATE":              filepath.Join(env.WorkDir, "state"),
		"SYMPHONY_STATE_DIR": filepath.Join(env.WorkDir, "state"),
		"JSON_TRACKER":       filepath.Join(filepath.Dir(program), "json-tracker"),
		recordVar:            filepath.Join(env.WorkDir, ".documents"),
		clockVar:             filepath.Join(env.WorkDir, ".clock"),
		"LINEAR_API_KEY":     server.Key(),
		"LINEAR_ENDPOINT":    server.Endpoint(),
		"LINEAR_URL":         strings.TrimSuffix(server.Endpoint(), "/graphql"),
		"GITHUB_API":         set.github.URL(),
		"GITHUB_TEST_TOKEN":  set.github.Tokens[0],
		// see TestMain; package variables are allocated before it
		"GOGC":                "off",
		"GOMEMLIMIT":          "256MiB",
		"GIT_CONFIG_NOSYSTEM": "1",
		// Not /dev/null: "git config --global" of a script would replace the device.
		"GIT_CONFIG_GLOBAL":   filepath.Join(env.WorkDir, ".gitconfig"),
		"GIT_AUTHOR_NAME":     "A",
		"GIT_AUTHOR_EMAIL":    "a@example.com",
		"GIT_COMMITTER_NAME":  "A",
		"GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		env.Setenv(k, v)
	}
	for name, text := range commonFiles() {
		path := filepath.Join(env.WorkDir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return fillIn(env)
}

// commonFiles returns the files that every script has unless it contains a file of that name:
// the workflow, what agents do, and told, which shows what an agent was told.
func commonFiles() map[string]string {
	return map[string]string{
		"WORKFLOW.md": made("WORKFLOW.md"),
		"done.agent":  "{move Human Review}\n",
		"quick.agent": "{move Done}\n",
		"slow.agent":  "sleep 1h\n", // longer than any script
		"bad.agent":   "fail other no luck\n",
		"gate.agent":  "{gate go}\n{move Human Review}\n",
		"made.agent":  "sh touch made\n{move Human Review}\n",
		"work.agent":  "sh echo x > work.txt\n{move Human Review}\n",
		// Login shells find what is installed for this machine, but nothing that the person
		// who runs the tests has set up.
		"home/.profile": "PATH=" + os.Getenv(toolsVar) + "\n",
		"asks.agent":    "ask-user Which way?\n{move Human Review}\n",
		"commit.agent":  "sh echo x > file && git add . && git commit -qm 'work on it'\n{move Human Review}\n",
		"crontab":       made("crontab.sh"),
		"hosts.sh":      made("hosts.sh"),
		"slurm.sh":      made("slurm.sh"),
		"engine.sh":     made("engine.sh"),
		"containers.sh": made("containers.sh"),
		"sge.sh":        made("sge.sh"),
		"told": `# Prints the text of turn $1 of the only thread.
cat codex-home/threads/*.json | tr -d '\n' | sed 's/"prompt": *"/\n@/g' | grep '^@' | tail -n +2 | sed -n "$1p" | sed 's/^@//; s/", *"answer.*//; s/\\n/\n/g'
`,
	}
}

// setupCodex gives a script a codex whose model is a mock.
func setupCodex(env *testscript.Env, path, home string) (*modeltest.Server, error) {
	model := modeltest.New()
	env.Defer(model.Close)
	if err := modeltest.WriteHome(home, model.URL); err != nil {
		return nil, err
	}
	env.Setenv("REAL_CODEX", path+" app-server")
	wire, err := inPath(env.Getenv("PATH"), "codex-wire")
	if err != nil {
		return nil, err
	}
	forms, err := inPath(env.Getenv("PATH"), "mcp-forms")
	if err != nil {
		return nil, err
	}
	env.Setenv("MCP_FORMS", forms)
	env.Setenv("RECORDED_CODEX", wire+" "+filepath.Join(env.WorkDir, "wire")+" "+path+" app-server")
	return model, nil
}

// fillIn replaces variables in the workflows, because not all keys expand them.
func fillIn(env *testscript.Env) error {
	files, err := filepath.Glob(filepath.Join(env.WorkDir, "*.md"))
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range []string{"LINEAR_ENDPOINT", "GITHUB_API", "JSON_TRACKER", "ACP_AGENT", "AGENT", "REAL_CODEX"} {
			data = bytes.ReplaceAll(data, []byte("$"+name), []byte(env.Getenv(name)))
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// logWorkers logs what the workers of a failed script have written, and the outputs of their
// agents' tools if the script has kept them.
func logWorkers(env *testscript.Env) {
	if t, ok := env.T().(interface{ Failed() bool }); !ok || !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(env.WorkDir, "state", "runs", "*", runner.LogFile))
	for _, log := range append(logs, filepath.Join(env.WorkDir, "outputs")) {
		if data, err := os.ReadFile(log); err == nil {
			env.T().Log(fmt.Sprintf("%s:\n%s", log, data))
		}
	}
}

// sweep kills the processes that a script has left, and fails the script.
func sweep(t testscript.T, mark string, dirs []string) {
	for end := time.Now().Add(test.Patience()); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if len(marked(mark, dirs...)) == 0 {
			return
		}
	}
	for pid, cmdline := range marked(mark, dirs...) {
		t.Log(fmt.Sprintf("left behind: %d %s", pid, cmdline))
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
		defer t.FailNow()
	}
}

// marked returns the processes of a script, found by their environment or, since only root can
// read that of a worker, by one of the script's directories in their arguments. It scans
// twice, because a worker may start a pass and end during one scan.
func marked(mark string, dirs ...string) map[int]string {
	found := scan(mark, dirs)
	maps.Copy(found, scan(mark, dirs))
	return found
}

func scan(mark string, dirs []string) map[int]string {
	found := map[int]string{}
	processes, _ := os.ReadDir("/proc")
	var buf [64 << 10]byte
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline := strings.TrimSpace(
			strings.ReplaceAll(string(readProc(pid, "cmdline", buf[:])), "\x00", " "),
		)
		if cmdline == "" { // a zombie
			continue
		}
		inDir := func(dir string) bool { return strings.Contains(cmdline, dir+"/") }
		if slices.ContainsFunc(dirs, inDir) ||
			bytes.Contains(readProc(pid, "environ", buf[:]), []byte(markName+"="+mark)) {
			found[pid] = cmdline
		}
	}
	return found
}

// readProc reads a file of a process into buf. Scripts scan thousands of processes a second,
// and os.ReadFile needs twice the time.
func readProc(pid int, name string, buf []byte) []byte {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	n, _ := syscall.Read(fd, buf)
	return buf[:max(0, n)]
}
