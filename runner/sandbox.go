package runner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// sandboxPolicy is what every turn carries, because codex forgets it over a resume. By default the agent
// may write the workspace, its own temporary and cache directories, what git commit needs, and nothing
// else; a policy of the workflow's passes through, and only a workspaceWrite that says nothing of
// writable roots is given these directories.
func (c Config) sandboxPolicy(w *workspace.Workspace) (json.RawMessage, error) {
	roots, err := c.writable(w)
	if err != nil {
		return nil, err
	}
	if c.TurnSandboxPolicy == nil {
		return json.Marshal(map[string]any{
			"type": "workspaceWrite", "writableRoots": roots, "networkAccess": c.Network,
			"excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
		})
	}
	var policy map[string]any
	if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
		// No object: codex judges it.
		return c.TurnSandboxPolicy, nil //nolint:nilerr
	}
	if _, has := policy["writableRoots"]; policy["type"] != "workspaceWrite" || has {
		return c.TurnSandboxPolicy, nil
	}
	policy["writableRoots"] = roots
	return json.Marshal(policy)
}

func (c Config) writable(w *workspace.Workspace) ([]string, error) {
	git, err := workspace.GitWritable(w.Path, c.WritableRoots...)
	if err != nil {
		return nil, fmt.Errorf("git directories of %s: %w", w.Path, err)
	}
	return slices.Concat([]string{w.TmpDir, w.CacheDir}, git, c.WritableRoots), nil
}

// threadConfig is what codex is told beside the sandbox: no goals (it would start turns by itself), no
// endless reconnecting, what its commands get of its environment, and that it must not trust the repository: a thread
// sandbox would make it, and it may have been told to earlier, by a person who works in the main repository of this
// worktree for instance. Passed are variables that commands get whatever their names.
func (c Config) threadConfig(runID string, w *workspace.Workspace, passed map[string]string) (map[string]any, error) {
	config := map[string]any{
		"features.goals":                        false,
		"features.unbounded_connection_retries": false,
		"shell_environment_policy":              commandEnv(runID, passed),
	}
	if c.OnQuestion == codex.QuestionAsk {
		config["features.default_mode_request_user_input"] = true // else the model is not let ask
	}
	if c.TrustRepository && c.ThreadSandbox != nil {
		return config, nil
	}
	root, err := workspace.RepoRoot(w.Path)
	if err != nil {
		return nil, fmt.Errorf("repository of %s: %w", w.Path, err)
	}
	never := map[string]any{"trust_level": "untrusted"}
	config["projects"] = map[string]any{w.Path: never, root: never}
	return config, nil
}
