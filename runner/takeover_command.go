package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// helpBound is how long codex may take to print its help.
const helpBound = 20 * time.Second

// command is the shell line that opens codex's terminal: codex.command, with what follows in the place of its word
// app-server.
func (t *Takeover) command(ctx context.Context, thread string) (string, error) {
	before, after, err := aroundServer(t.Config.Command)
	if err != nil {
		return "", err
	}
	args, err := t.arguments()
	if err != nil {
		return "", err
	}
	help, err := t.help(ctx, before)
	if err != nil {
		return "", err
	}
	if strings.Contains(help, "--no-daemon") {
		// A server that other sessions share knows neither this environment nor the lease.
		args = append(args, "--no-daemon")
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = proc.ShellWord(arg)
	}
	line := before
	if thread != "" {
		line += "resume " + proc.ShellWord(thread) + " "
	}
	return t.shell(line + strings.Join(words, " ") + after), nil
}

// shell lets a line run as an agent's is: in the workspace, with the secrets taken away, whatever the profile did.
func (t *Takeover) shell(line string) string {
	return proc.ShellIn(t.a.space.Path, proc.ShellUnset(t.Config.withheld(t.Env), line))
}

// help is what codex says of its command resume.
func (t *Takeover) help(ctx context.Context, before string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helpBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-lc", t.shell(before+"resume --help")) //nolint:gosec // as codex.command is
	cmd.Dir, cmd.Env = t.a.space.Path, t.a.env().codex()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--sandbox") {
		text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "", incompatible("codex.command has no terminal of codex's: "+before+"resume --help says "+strconv.Quote(text),
			"takeover needs a codex.command that is codex itself, such as: codex app-server")
	}
	return string(out), nil
}

// aroundServer cuts codex.command at its word app-server.
func aroundServer(command string) (before, after string, err error) {
	at := regexp.MustCompile(`(?:^|\s)(app-server)(?:\s|$)`).FindAllStringSubmatchIndex(command, -1)
	if len(at) != 1 {
		return "", "", incompatible(fmt.Sprintf("codex.command has no single word app-server: %.200s", command),
			"takeover puts codex's own terminal in its place: write the command so that the word stands in it once")
	}
	return command[:at[0][2]], command[at[0][3]:], nil
}

// arguments say to codex what a run says in thread/start and turn/start.
func (t *Takeover) arguments() ([]string, error) {
	args := []string{"--cd", t.a.space.Path}
	sandbox, err := t.sandbox()
	if err != nil {
		return nil, err
	}
	args = append(args, sandbox...)
	var policy string
	if err := json.Unmarshal(t.Config.ApprovalPolicy, &policy); err == nil && policy != "" {
		args = append(args, "--ask-for-approval", policy)
	}
	// Commands get no secret by the name, pass_env or not: its values would have to stand on a command line here. A login
	// shell could bring them back, and codex itself was started by one.
	config, err := t.a.Config.threadConfig(t.ID, t.a.space, nil)
	if err != nil {
		return nil, err
	}
	config["allow_login_shell"], config["features.shell_snapshot"] = false, false
	config["check_for_update_on_startup"] = false
	return append(args, settings(config)...), nil
}

// LeftOut names the variables of agent.pass_env that commands of a session do not get, because they hold secrets.
func (t *Takeover) LeftOut() []string {
	return slices.DeleteFunc(slices.Clone(t.Config.PassEnv), func(name string) bool { return !excludedByCodex(name) })
}

// sandbox is the policy of a run's turns in the words of the command line.
func (t *Takeover) sandbox() ([]string, error) {
	raw, err := t.a.Config.sandboxPolicy(t.a.space)
	if err != nil {
		return nil, err
	}
	var p struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
		NoTmpdir      bool     `json:"excludeTmpdirEnvVar"`
		NoSlashTmp    bool     `json:"excludeSlashTmp"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, incompatible("codex.turn_sandbox_policy: "+err.Error(), "correct it in the workflow")
	}
	switch p.Type {
	case "workspaceWrite":
		return append([]string{"--sandbox", "workspace-write"}, settings(map[string]any{
			"sandbox_workspace_write": map[string]any{
				"writable_roots": append([]string{}, p.WritableRoots...), "network_access": p.NetworkAccess,
				"exclude_tmpdir_env_var": p.NoTmpdir, "exclude_slash_tmp": p.NoSlashTmp,
			},
		})...), nil
	case "readOnly":
		return []string{"--sandbox", "read-only"}, nil
	case "dangerFullAccess":
		return []string{"--sandbox", "danger-full-access"}, nil
	}
	return nil, incompatible(fmt.Sprintf("codex's terminal knows no sandbox of type %q (codex.turn_sandbox_policy)", p.Type),
		"symphony show names the workspace and the thread: open them by hand")
}

// settings are -c options for codex's configuration, in the order of their keys.
func settings(config map[string]any) (args []string) {
	for key, value := range flatten("", config) {
		args = append(args, key+"="+value)
	}
	slices.Sort(args)
	out := make([]string, 0, 2*len(args))
	for _, arg := range args {
		out = append(out, "-c", arg)
	}
	return out
}

// flatten gives the values as TOML by their dotted keys. A key that is no plain word, a path for one, can't stand in a
// dotted one; such a table is written as a whole.
func flatten(prefix string, table map[string]any) map[string]string {
	flat := map[string]string{}
	for key, value := range table {
		if inner, ok := value.(map[string]any); ok && plainKeys(inner) {
			for k, v := range flatten(prefix+key+".", inner) {
				flat[k] = v
			}
			continue
		}
		flat[prefix+key] = toml(value)
	}
	return flat
}

func plainKeys(table map[string]any) bool {
	for key := range table {
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return false
		}
	}
	return true
}

// toml writes a value as TOML has it; strings are JSON's but for what that would escape otherwise.
func toml(value any) string {
	switch v := value.(type) {
	case string:
		return tomlString(v)
	case []string:
		words := make([]string, len(v))
		for i, s := range v {
			words[i] = tomlString(s)
		}
		return "[" + strings.Join(words, ",") + "]"
	case map[string]any:
		var pairs []string
		for key, inner := range v {
			pairs = append(pairs, tomlString(key)+"="+toml(inner))
		}
		slices.Sort(pairs)
		return "{" + strings.Join(pairs, ",") + "}"
	}
	return fmt.Sprint(value) // numbers and booleans
}

func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
