package proc

import "github.com/symphony-cron/symphony/reconcile"

// FoundWorker is a worker known by its command line alone.
type FoundWorker struct {
	reconcile.Process
	// Workflow is the path of the workflow that it works for.
	Workflow string
}
