package state

import (
	"context"
	"fmt"
)

// MoveWorkspaces gives the workspaces below the folder from, which was moved to the path to, their new paths. Repeated, it changes
// nothing.
func (o Operator) MoveWorkspaces(ctx context.Context, from, to string) error {
	return o.update(ctx, "move workspaces", full, func(t tx) error {
		for _, column := range [][2]string{{"claims", "workspace_root"}, {"runs", "workspace_root"}, {"runs", "workspace_path"}} {
			moved := fmt.Sprintf(`UPDATE %s SET %[2]s = ?2 || substr(%[2]s, length(?1)) WHERE substr(%[2]s, 1, length(?1)) = ?1`, column[0], column[1])
			if err := t.run(moved, from+"/", to); err != nil {
				return err
			}
		}
		return nil
	})
}
