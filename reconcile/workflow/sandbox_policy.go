package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/internal/paths"
)

// sandboxPolicy is the policy of an agent's own sandbox, as far as two of them can be compared.
type sandboxPolicy struct {
	Type                string    `json:"type"`
	NetworkAccess       bool      `json:"networkAccess"`
	WritableRoots       *[]string `json:"writableRoots"`
	ExcludeTmpdirEnvVar bool      `json:"excludeTmpdirEnvVar"`
	ExcludeSlashTmp     bool      `json:"excludeSlashTmp"`
}

// noSandbox are the types of policies with which that sandbox confines nothing.
var noSandbox = []string{"dangerFullAccess", "externalSandbox"}

// widens lists the rights of an agent under a policy beyond its rights under the file's other
// settings. It is empty if the policy only takes rights away.
func (c *Config) widens(policy json.RawMessage) string {
	base := c.Session.TurnSandboxPolicy
	if base != nil && sameJSON(policy, base) {
		return ""
	}
	row, err := readPolicy(policy)
	if err != nil {
		return "do more than " + keyTurnPolicy + ", as far as symphony can tell: " + err.Error()
	}
	than := sandboxPolicy{
		Type:            "workspaceWrite",
		NetworkAccess:   c.Agent.Network,
		ExcludeSlashTmp: true,
	}
	if base != nil {
		than, err = readPolicy(base)
	}
	if err != nil {
		return "do more than " + keyTurnPolicy + ", as far as symphony can tell: " + err.Error()
	}
	switch {
	case slices.Contains(noSandbox, than.Type):
		return ""
	case slices.Contains(noSandbox, row.Type):
		return "leave the sandbox"
	case row.NetworkAccess && !than.NetworkAccess:
		return "use the network"
	case row.Type == "readOnly":
		return ""
	case than.Type == "readOnly":
		return "write the workspace"
	case than.ExcludeSlashTmp && !row.ExcludeSlashTmp:
		return "write /tmp"
	}
	return c.moreRoots(row.WritableRoots, than.WritableRoots)
}

// moreRoots returns the first directory that an agent may write with the roots of row, but not
// with the roots of base, such as "write /srv"; empty if there is none. Both are the roots of
// policies of the type workspaceWrite. A policy without roots has agent.writable_roots.
func (c *Config) moreRoots(row, base *[]string) string {
	inForce := func(named *[]string) []string {
		if named == nil {
			return c.Agent.WritableRoots
		}
		return *named
	}
	may := inForce(base)
	for _, root := range inForce(row) {
		if !slices.ContainsFunc(may, func(dir string) bool { return paths.Inside(dir, root) }) {
			return "write " + root
		}
	}
	return ""
}

// readPolicy reads a policy of a type and with members that symphony knows.
func readPolicy(policy json.RawMessage) (p sandboxPolicy, err error) {
	var typ struct{ Type string }
	if err := json.Unmarshal(policy, &typ); err == nil && slices.Contains(noSandbox, typ.Type) {
		return sandboxPolicy{Type: typ.Type}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(policy))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("it can't be compared: %w", err)
	}
	if p.Type != "readOnly" && p.Type != "workspaceWrite" {
		return p, fmt.Errorf("the type %q is unknown", p.Type)
	}
	return p, nil
}

// sameJSON reports whether two documents of JSON have the same content.
func sameJSON(a, b json.RawMessage) bool {
	var one, other any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return false
	}
	left, leftErr := json.Marshal(one) // maps in the order of their keys
	right, rightErr := json.Marshal(other)
	return leftErr == nil && rightErr == nil && bytes.Equal(left, right)
}
