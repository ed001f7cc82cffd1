package state

import (
	"context"
	"fmt"
)

// MoveWorkspaces gives the workspaces below the folder from, which was moved to the path to, their new paths. Repeated, it changes nothing.
func (o Operator) MoveWorkspaces(ctx context.Context, from, to string) error {
	return o.update(ctx, "move workspaces", full, func(t tx) error {
		for _, column := range [][2]string{{"claims", "workspace_root"}, {"runs", "workspace_root"}, {"runs", "workspace_path"}} {
			const move = `UPDATE %s SET %[2]s = ?2 || substr(%[2]s, length(?1)) WHERE substr(%[2]s, 1, length(?1)) = ?1`
			if err := t.run(fmt.Sprintf(move, column[0], column[1]), from+"/", to); err != nil {
				return err
			}
		}
		return nil
	})
}

// MoveProjects gives the projects of claims the names that rename returns. Repeated, it changes nothing.
func (o Operator) MoveProjects(ctx context.Context, rename func(project string) string) error {
	return o.update(ctx, "move projects", full, func(t tx) error {
		projects, err := rows(t, itself[string], `SELECT DISTINCT project FROM claims`)
		for _, project := range projects {
			if name := rename(project); err == nil && name != project {
				err = t.run(`UPDATE claims SET project = ? WHERE project = ?`, name, project)
			}
		}
		return err
	})
}
