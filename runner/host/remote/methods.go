package remote

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
)

// diffResult is a diff, as text.
type diffResult struct {
	Found bool   `json:"found"`
	Text  string `json:"text"`
	Cut   bool   `json:"cut"` // it is only the beginning
}

// methods are the calls of the port by name. Client and server call them by the names of the methods of host.Machine, host.Run and
// host.Process.
func methods(m host.Machine, run host.Run, c *children) map[string]method {
	all := map[string]method{
		"Facts": methodOf(m.Facts), "Root": methodOf(m.Root), "Purge": methodOf(m.Purge), "Inspect": methodOf(m.Inspect),
		"Diff": methodOf(func(ctx context.Context, r host.WorkspaceRequest) (diffResult, error) {
			var text limitedText
			found, err := m.Diff(ctx, r, &text)
			if text.cut {
				found, err = true, nil
			}
			return diffResult{found, text.String(), text.cut}, err
		}),

		"Prepare": methodOf(run.Prepare), "Open": methodOf(withoutBoth(run.Open)), "Confirm": methodOf(withoutResult(run.Confirm)),
		"Verify": methodOf(withoutBoth(run.Verify)), "Login": methodOf(run.Login), "MakeHome": methodOf(withoutResult(run.MakeHome)),
		"RunHook": methodOf(run.RunHook), "GuardGit": methodOf(withoutResult(run.GuardGit)), "Kill": methodOf(run.Kill),
		"RestoreGit": methodOf(withoutParameters(run.RestoreGit)), "Observe": methodOf(withoutParameters(run.Observe)),
		"Finish": methodOf(withoutBoth(run.Finish)), "PrepareRemoval": methodOf(run.PrepareRemoval),
		"Remove": methodOf(withoutParameters(run.Remove)),
		"Start":  methodOf(func(ctx context.Context, r host.StartRequest) (started, error) { return c.start(ctx, run, r) }),
	}
	maps.Copy(all, c.methods())
	if steps, serves := run.(host.RepositorySteps); serves {
		maps.Copy(all, map[string]method{
			"ReadTips": methodOf(steps.ReadTips), "AddToBundle": methodOf(withoutResult(steps.AddToBundle)),
			"CloneBundle": methodOf(withoutResult(steps.CloneBundle)), "FetchBundle": methodOf(steps.FetchBundle),
			"MakePack": methodOf(steps.MakePack), "ReadPack": methodOf(steps.ReadPack),
			"RecordDelivered": methodOf(withoutResult(steps.RecordDelivered)),
		})
	}
	return all
}

// methods are the calls about processes.
func (c *children) methods() map[string]method {
	return map[string]method{
		"Write": ofChild(c, func(ctx context.Context, p *child, w childCall) (nothing, error) {
			defer context.AfterFunc(ctx, func() { _ = p.Stdin().Close() })() // a process that does not read would block the call for ever
			_, err := p.Stdin().Write(w.Data)
			return nothing{}, err
		}),
		"CloseStdin": ofChild(c, func(_ context.Context, p *child, _ childCall) (nothing, error) {
			return nothing{}, p.Stdin().Close()
		}),
		"Read": ofChild(c, func(ctx context.Context, p *child, r childCall) (readResult, error) {
			if r.Stream < 0 || r.Stream >= len(p.outputs) {
				return readResult{}, fmt.Errorf("a process has no stream %d", r.Stream)
			}
			data, err := p.outputs[r.Stream].next(ctx, r.Offset, r.Max)
			return readResult{data}, err
		}),
		"Wait": ofChild(c, func(ctx context.Context, p *child, _ childCall) (nothing, error) { return nothing{}, p.Wait(ctx) }),
		"Descendants": ofChild(c, func(ctx context.Context, p *child, _ childCall) (host.LeftAnswer, error) {
			list, err := p.Descendants(ctx)
			return host.LeftAnswer{Processes: list}, err
		}),
		"Environ": ofChild(c, func(ctx context.Context, p *child, _ childCall) ([]string, error) { return p.Environ(ctx) }),
		"KillThread": ofChild(c, func(ctx context.Context, p *child, t childCall) (host.LeftAnswer, error) {
			return p.KillThread(ctx, t.ThreadID)
		}),
		"SignalGroup": ofChild(c, func(_ context.Context, p *child, s childCall) (nothing, error) {
			return nothing{}, p.SignalGroup(s.Signal)
		}),
		"Close": methodOf(func(_ context.Context, r childCall) (host.Exit, error) { return c.closeChild(r.Child) }),
	}
}

// ofChild returns a method about a process that was not closed.
func ofChild[A any](c *children, f func(context.Context, *child, childCall) (A, error)) method {
	return methodOf(func(ctx context.Context, q childCall) (result A, err error) {
		p, err := c.find(q.Child)
		if err != nil {
			return result, err
		}
		return f(ctx, p, q)
	})
}

// limitedText keeps the first maxDiff bytes. Then writing fails.
type limitedText struct {
	strings.Builder
	cut bool
}

const maxDiff = maxLine / 8

func (t *limitedText) Write(p []byte) (int, error) {
	if rest := maxDiff - t.Len(); rest < len(p) {
		t.Builder.Write(p[:rest])
		t.cut = true
		return 0, fmt.Errorf("more than %d MiB", maxDiff>>20)
	}
	return t.Builder.Write(p)
}
