package confine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// TurnPolicy returns the sandbox policy of every turn. By default the agent may write the
// workspace, its temporary and cache directories, and the files that git commit writes. A
// policy in the workflow is used as it is, except that a workspaceWrite without writable roots
// gets these directories, and the $TMPDIR of the commands: codex would take its own. In a
// sandbox of symphony codex makes none.
func (c Config) TurnPolicy(ctx context.Context, m host.Paths, w host.Workspace) (json.RawMessage, error) {
	dirs, err := m.GitDirs(ctx, host.GitDirsRequest{Path: w.Path, Opened: c.WritableRoots})
	if err != nil {
		return nil, err
	}
	if c.RootsAreReal {
		now, err := m.Resolve(ctx, c.WritableRoots)
		if err != nil {
			return nil, err
		}
		if err := sameRoots(c.WritableRoots, now); err != nil {
			return nil, err
		}
	}
	if c.Boxed {
		return text.JSON(map[string]any{"type": "dangerFullAccess"}), nil
	}
	if c.ProtectGit {
		dirs.Writable = nil
	}
	policy := map[string]any{
		"type":                "workspaceWrite",
		"networkAccess":       c.Network,
		"excludeTmpdirEnvVar": true,
		"excludeSlashTmp":     true,
	}
	if c.TurnSandboxPolicy != nil {
		policy = nil
		if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
			return c.TurnSandboxPolicy, nil //nolint:nilerr // not an object: codex will refuse it
		}
		roots, has := policy["writableRoots"].([]any)
		switch {
		case policy["type"] != "workspaceWrite":
			return c.TurnSandboxPolicy, nil
		case has && policy["excludeTmpdirEnvVar"] == true:
			return c.TurnSandboxPolicy, nil
		case has:
			policy["writableRoots"] = append(roots, w.TmpDir)
			policy["excludeTmpdirEnvVar"] = true
			return json.Marshal(policy)
		}
		policy["excludeTmpdirEnvVar"] = true
	}
	policy["writableRoots"] = slices.Concat(
		[]string{w.TmpDir, w.CacheDir},
		dirs.Writable,
		c.WritableRoots,
	)
	return json.Marshal(policy)
}

// sameRoots refuses a turn if a writable directory was replaced by a link since the run began.
func sameRoots(roots, now []string) error {
	for i, root := range roots {
		if i < len(now) && now[i] == root {
			continue
		}
		return reconcile.NewError(
			"invalid_config",
			"agent.writable_roots: "+root+" was replaced by a link while the run went on",
			"look who made the link, and put the directory back",
		)
	}
	return nil
}

// The names of permission profiles in codex's configuration.
const (
	ProfileName         = "symphony"
	ReadOnlyProfileName = "symphony-read-only"
)

// Profile returns the permission profile that gives a turn the rights of its policy and denies
// it to read Unreadable. It returns nil if a profile can't express the policy, if there is
// nothing to deny, or if IsPattern is true of a path.
func (c Config) Profile(ctx context.Context, m host.Paths, policy json.RawMessage) (map[string]any, error) {
	files, describable := filesOf(policy)
	if !describable {
		return nil, nil
	}
	// codex would create missing paths
	existing, err := m.Existing(ctx, c.Unreadable)
	if err != nil || len(existing) == 0 {
		return nil, err
	}
	for _, path := range existing {
		files[path] = "deny"
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(files)), IsPattern) {
		return nil, nil
	}
	return map[string]any{
		"filesystem": files,
		"network":    map[string]any{"enabled": networkOf(policy)},
	}, nil
}

// Hides reports whether a profile can take the place of a policy, so that secrets are hidden
// from commands.
func Hides(policy json.RawMessage) bool {
	_, describable := filesOf(policy)
	return describable
}

// filesOf returns the rights of commands to files under a policy, in the words of a permission
// profile. It returns false if a profile can't express it: codex confines nothing, or the
// policy contains a member that symphony does not know.
func filesOf(policy json.RawMessage) (files map[string]any, describable bool) {
	var p struct {
		Type                string   `json:"type"`
		NetworkAccess       bool     `json:"networkAccess"`
		WritableRoots       []string `json:"writableRoots"`
		ExcludeTmpdirEnvVar bool     `json:"excludeTmpdirEnvVar"` // TurnPolicy sets it
		ExcludeSlashTmp     bool     `json:"excludeSlashTmp"`
	}
	decoder := json.NewDecoder(bytes.NewReader(policy))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&p) != nil {
		return nil, false
	}
	files = map[string]any{":root": "read"}
	if p.Type == "readOnly" {
		return files, true
	}
	if p.Type != "workspaceWrite" {
		return nil, false
	}
	files[":workspace_roots"] = map[string]any{".": "write"}
	for _, dir := range p.WritableRoots {
		if !filepath.IsAbs(dir) {
			return nil, false // codex refuses the policy
		}
		files[dir] = "write"
	}
	if !p.ExcludeSlashTmp {
		files["/tmp"] = "write"
	}
	return files, true
}

// IsPattern reports whether codex would take a path of a permission profile for a pattern.
func IsPattern(path string) bool { return strings.ContainsAny(path, "*?[]{}") }

// AddProfile adds a permission profile to the configuration of a thread and selects it.
func AddProfile(config, profile map[string]any) {
	config["permissions"] = map[string]any{ProfileName: profile}
	config["default_permissions"] = ProfileName
}

// DirectoryProfiles returns the permission profiles of an agent in a directory of the
// operator's own, or in a worktree. With ProfileName, commands may write that directory, the
// directories of w and git; with ReadOnlyProfileName, nothing. The profiles do not depend on
// where conversations and commands start. No command may write a guarded path, or replace a
// directory above it. Of a path that does not exist, the first missing part is guarded.
func (c Config) DirectoryProfiles(
	dir string,
	w host.Workspace,
	guarded []string,
	git ...string,
) map[string]any {
	readOnly := map[string]any{":root": "read"}
	files := map[string]any{":root": "read", dir: "write", w.TmpDir: "write", w.CacheDir: "write"}
	for _, path := range git {
		files[path] = "write"
	}
	guards := text.Map(outermost(guarded), func(path string) string { return firstMissing(dir, path) })
	for _, guard := range guards {
		for above := filepath.Dir(guard); above != dir && paths.Inside(dir, above); above = filepath.Dir(above) {
			if isDir(above) {
				files[above] = "write" // as a mount point it can't be renamed
			}
		}
	}
	for _, guard := range guards {
		files[guard] = "read"
	}
	for _, path := range c.Unreadable {
		if _, err := os.Lstat(path); err != nil {
			continue // codex would create it
		}
		files[path] = "deny"
		readOnly[path] = "deny"
	}
	profile := func(files map[string]any) map[string]any {
		return map[string]any{"filesystem": files, "network": map[string]any{"enabled": false}}
	}
	return map[string]any{ProfileName: profile(files), ReadOnlyProfileName: profile(readOnly)}
}

// outermost returns the paths that are not inside another path of the list. A guarded
// directory also guards its contents: codex could not put an empty file in their place there.
func outermost(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		isInside := func(other string) bool { return other != path && paths.Inside(other, path) }
		return slices.ContainsFunc(all, isInside)
	})
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// firstMissing returns the first directory below dir on the way to path that does not exist;
// path itself if they all do. While a command runs, codex puts an empty file in the place of a
// missing path that it must protect.
func firstMissing(dir, path string) string {
	missing := path
	for at := filepath.Dir(path); at != dir && paths.Inside(dir, at); at = filepath.Dir(at) {
		if !isDir(at) {
			missing = at
		}
	}
	return missing
}

// Patterns returns the paths that DirectoryProfiles adds to the profiles by itself and that
// codex would take for patterns.
func (c Config) Patterns(w host.Workspace) []string {
	return text.Filter(append([]string{w.TmpDir, w.CacheDir}, c.Unreadable...), IsPattern)
}

// ProfileFlags are the arguments of codex app-server that give all its commands these
// profiles, and the first by default.
func ProfileFlags(profiles map[string]any) string {
	return "-c " + text.ShellWord("permissions="+TOML(profiles)) +
		" -c " + text.ShellWord("default_permissions="+TOML(ProfileName))
}

// TOML encodes a setting of codex: maps as inline tables, other values as JSON, which is the
// same in TOML.
func TOML(value any) string {
	table, ok := value.(map[string]any)
	if !ok {
		return string(text.JSON(value))
	}
	pair := func(key string) string { return TOML(key) + "=" + TOML(table[key]) }
	pairs := text.Map(slices.Sorted(maps.Keys(table)), pair)
	return "{" + strings.Join(pairs, ",") + "}"
}

// ReadsOnly reports whether a policy gives a turn the rights of ReadOnlyProfileName.
func ReadsOnly(policy json.RawMessage) bool {
	var p struct{ Type string }
	return json.Unmarshal(policy, &p) == nil && p.Type == "readOnly" && !networkOf(policy)
}

// Confines reports whether the agent sandboxes its commands itself under a sandbox policy.
func Confines(policy json.RawMessage) bool {
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		return true // not an object: the agent will refuse the policy
	}
	return p.Type != "dangerFullAccess" && p.Type != "externalSandbox"
}

// networkOf reports whether a policy lets sandboxed commands reach the network.
func networkOf(policy json.RawMessage) bool {
	var p struct {
		NetworkAccess bool `json:"networkAccess"`
	}
	return json.Unmarshal(policy, &p) == nil && p.NetworkAccess
}

// ClosesNetwork returns the setting that keeps commands from the network, with the value that
// opens it; empty if it is open.
func (c Config) ClosesNetwork() (setting string) {
	switch {
	case c.TurnSandboxPolicy == nil && !c.Network:
		return "agent.network: true"
	case c.TurnSandboxPolicy != nil && Confines(c.TurnSandboxPolicy) && !networkOf(c.TurnSandboxPolicy):
		return "networkAccess: true in codex.turn_sandbox_policy"
	}
	return ""
}

// AgentWrites returns the directories that an agent may write besides its workspace. If its
// commands can be approved it may write anywhere, because approved commands run outside the
// sandbox.
func (c Config) AgentWrites() (anywhere bool, dirs []string) {
	dirs = c.WritableRoots
	if c.TurnSandboxPolicy != nil {
		var policy struct {
			Type          string    `json:"type"`
			WritableRoots *[]string `json:"writableRoots"`
		}
		if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
			return true, nil
		}
		if policy.Type != "workspaceWrite" && policy.Type != "readOnly" {
			return true, nil
		}
		if policy.WritableRoots != nil {
			dirs = *policy.WritableRoots
		}
	}
	return string(c.ApprovalPolicy) != `"never"`, dirs
}

// ThreadConfig returns codex's configuration for a thread: no goals, with which codex starts
// turns by itself; no endless reconnecting; the environment of commands; and no trust in the
// repository, which an operator may have granted earlier, for instance while working in the
// main repository of a worktree. agentEnv is the environment of the agent.
func (c Config) ThreadConfig(
	ctx context.Context, m host.Paths, runID string, w host.Workspace, agentEnv []string,
) (map[string]any, error) {
	repository, err := hasGit(ctx, m, w.Path)
	if err != nil {
		return nil, err
	}
	config := map[string]any{
		"features.goals":                        false,
		"features.unbounded_connection_retries": false,
		// Login shells for commands, and snapshots of their exports, would set variables that
		// commands must not get. Commands get the exports of the login shell that started
		// codex.
		"allow_login_shell":       false,
		"features.shell_snapshot": false,
		"shell_environment_policy": map[string]any{
			"ignore_default_excludes": false,
			"set":                     c.commandVars(runID, w, repository, agentEnv),
		},
	}
	if c.Model != "" {
		config["model"] = c.Model
	}
	if c.Effort != "" {
		config["model_reasoning_effort"] = c.Effort
	}
	if c.OnQuestion == agent.QuestionAsk {
		config["features.default_mode_request_user_input"] = true // without it the model can't ask
	}
	if c.TrustRepository && c.ThreadSandbox != nil {
		return config, nil
	}
	dirs, err := m.GitDirs(ctx, host.GitDirsRequest{Path: w.Path})
	if err != nil {
		return nil, err
	}
	untrusted := map[string]any{"trust_level": "untrusted"}
	config["projects"] = map[string]any{w.Path: untrusted, dirs.Root: untrusted}
	return config, nil
}

// How often to probe a workspace. Codex protects .git, .codex and .agents with mount points
// that it creates and removes. In a directory that several agents may write, two sandboxes may
// do so at the same time, and one fails.
const (
	probeTries = 5
	probePause = 200 * time.Millisecond
)

// TrySandbox asks codex to try the sandbox of a turn in the workspace. If that fails, it tries
// the simplest sandbox in elsewhere, a directory that no agent can write. If that fails too,
// the machine is at fault, otherwise the workspace.
//
// Errors: *reconcile.Error of code sandbox_unavailable or sandbox_failed; agent.ErrNoProbe;
// the errors of the session.
func TrySandbox(
	ctx context.Context,
	s agent.Session,
	workspace, elsewhere string,
	policy json.RawMessage,
) error {
	simplest := text.JSON(map[string]any{"type": "readOnly", "networkAccess": networkOf(policy)})
	for try := 1; ; try++ {
		err := s.ProbeSandbox(ctx, workspace, policy)
		here := unavailable(err)
		if here == nil {
			return err
		}
		if try == 1 {
			err := s.ProbeSandbox(ctx, elsewhere, simplest)
			if there := unavailable(err); there != nil {
				return reconcile.NewError(
					string(agent.CodeSandboxUnavailable),
					"codex can't sandbox commands on this machine: "+there.Message,
					SandboxHint(),
				)
			}
			if err != nil {
				return err
			}
		}
		if try == probeTries {
			return reconcile.NewError(
				"sandbox_failed",
				"codex can't sandbox commands in "+workspace+", though it can elsewhere: "+here.Message,
				"check the path in the message: a link or a broken .git, or a missing path in agent.writable_roots",
			)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probePause):
		}
	}
}

// unavailable returns the error of a sandbox that can't be used; nil for another error.
func unavailable(err error) *agent.Error {
	failed, ok := errors.AsType[*agent.Error](err)
	if !ok || failed.Code != agent.CodeSandboxUnavailable {
		return nil
	}
	return failed
}

// SandboxHint is the next step if this system can't sandbox.
func SandboxHint() string {
	hint := "run symphony outside another sandbox"
	if runtime.GOOS == "linux" {
		hint = "allow unprivileged user namespaces (sysctl user.max_user_namespaces=15000, and where they " +
			"exist kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0), " +
			"or install bubblewrap with its AppArmor profile; a container must be allowed to create " +
			"namespaces (--security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	}
	return hint + "; or, in a dedicated container or virtual machine, " +
		"set codex.turn_sandbox_policy: {type: externalSandbox}"
}
