package worker

import (
	"context"
	"io"

	"github.com/symphony-cron/symphony/runner/acp"
)

// ToolsCommand is the command by which an agent reaches the tools of its worker.
const ToolsCommand = acp.RelayCommand

// RelayTools connects an agent with the tools of its worker.
func RelayTools(ctx context.Context, socket string, in io.Reader, out io.Writer) error {
	return acp.Relay(ctx, socket, in, out)
}
