package state

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
)

// MoveWorkspaces gives the workspaces below the folder from, which was moved to the path to,
// their new paths. Repeated, it changes nothing.
func (o Operator) MoveWorkspaces(ctx context.Context, from, to string) error {
	return o.update(ctx, "move workspaces", full, func(t tx) error {
		for _, statement := range []string{
			`UPDATE claims SET workspace_root = ?2 || substr(workspace_root, length(?1))
				WHERE substr(workspace_root || '/', 1, length(?1)) = ?1`,
			`UPDATE claims SET delivery = json_set(delivery, '$.root',
					?2 || substr(delivery ->> '$.root', length(?1)))
				WHERE substr(nullif(delivery, '') ->> '$.root' || '/', 1, length(?1)) = ?1
				AND coalesce(delivery ->> '$.host', '') = ''`,
			`UPDATE runs SET workspace_root = ?2 || substr(workspace_root, length(?1))
				WHERE substr(workspace_root || '/', 1, length(?1)) = ?1 AND host = ''`,
			`UPDATE runs SET workspace_path = ?2 || substr(workspace_path, length(?1))
				WHERE substr(workspace_path || '/', 1, length(?1)) = ?1 AND host = ''`,
		} {
			if err := t.run(statement, from+"/", to); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetWorkers records that runs that have not ended have no worker here: a backup was restored.
func (o Operator) ForgetWorkers(ctx context.Context) error {
	return o.update(ctx, "forget the workers of a backup", full, func(t tx) error {
		return t.run(`UPDATE runs SET worker_boot = ? WHERE outcome IS NULL AND worker_boot IS NOT NULL`,
			reconcile.BootOfBackup)
	})
}

// MoveProjects gives the projects of claims, and of workspaces on other machines, the names
// that rename returns. Repeated, it changes nothing.
func (o Operator) MoveProjects(ctx context.Context, rename func(project string) string) error {
	return o.update(ctx, "move projects", full, func(t tx) error {
		projects, err := rows(t, itself[string],
			`SELECT project FROM claims UNION SELECT workspace ->> '$.Project' FROM remote_workspaces`)
		if err != nil {
			return err
		}
		for _, project := range projects {
			name := rename(project)
			if name == project {
				continue
			}
			if err := t.run(`UPDATE claims SET project = ? WHERE project = ?`, name, project); err != nil {
				return err
			}
			err := t.run(`UPDATE remote_workspaces SET workspace = json_set(workspace, '$.Project', ?)
				WHERE workspace ->> '$.Project' = ?`, name, project)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
