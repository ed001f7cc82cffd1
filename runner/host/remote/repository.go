package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// maxPack is the number of bytes that a delivery reads from a host at most.
const maxPack = 4 << 30

// Clone implements host.Run. The mirror here fetches from the remote; the one on the host gets what it lacks in a bundle.
func (r run) Clone(ctx context.Context, q host.CloneRequest) (host.CloneAnswer, error) {
	m, err := r.mirror(q.Repository, q.Env)
	if err != nil {
		return host.CloneAnswer{}, err
	}
	return host.Within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the clone", func(ctx context.Context) (host.CloneAnswer, error) {
		return r.cloneFrom(ctx, m, q)
	})
}

func (r run) cloneFrom(ctx context.Context, m host.Mirror, q host.CloneRequest) (answer host.CloneAnswer, err error) {
	there, err := r.readTips(ctx, m)
	if err != nil {
		return answer, err
	}
	made, bundle, err := m.Bundle(ctx, q, there.Tips)
	if err != nil {
		return answer, err
	}
	if err := errors.Join(r.send(ctx, bundle), bundle.Close()); err != nil {
		return answer, err
	}
	return made.CloneAnswer, tell(ctx, r.Client, "CloneBundle", host.BundleRequest{
		Bundled: made, Address: m.Address(), Branch: q.Branch, Name: q.Repository.Name, Email: q.Repository.Email, Env: q.CheckoutEnv,
	})
}

// mirror returns the mirror here.
func (r run) mirror(repository host.Repository, env []string) (host.Mirror, error) {
	if r.mirrors == nil {
		return nil, errors.New("there are no mirrors for runs on other machines")
	}
	return r.mirrors.Mirror(repository, env), nil
}

// readTips reads what the host has. Git gets these names as arguments.
func (r run) readTips(ctx context.Context, m host.Mirror) (answer host.TipsAnswer, err error) {
	answer, err = ask[host.TipsAnswer](ctx, r.Client, "ReadTips", host.TipsRequest{Address: m.Address()})
	for _, id := range append([]string{answer.Commit, answer.Cloned.Commit}, answer.Tips...) {
		if err == nil && id != "" && !objectName().MatchString(id) {
			err = reconcile.NewError(host.CodeDeliveryFailed, "the host names a commit "+text.Visible(text.Within(id, 100)),
				"see what is wrong with symphony on the host")
		}
	}
	answer.Cloned.URL = text.Visible(answer.Cloned.URL)
	return answer, err
}

var objectName = text.Pattern(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// send sends a bundle in parts.
func (r run) send(ctx context.Context, bundle io.Reader) error {
	buffer := make([]byte, host.PartSize)
	for offset := int64(0); ; {
		n, readErr := io.ReadFull(bundle, buffer)
		if n > 0 {
			if err := tell(ctx, r.Client, "AddToBundle", host.Part{Offset: offset, Data: buffer[:n]}); err != nil {
				return err
			}
		}
		offset += int64(n)
		switch {
		case errors.Is(readErr, io.EOF), errors.Is(readErr, io.ErrUnexpectedEOF):
			return nil
		case readErr != nil:
			return readErr
		}
	}
}

// Deliver implements host.Run. The mirror here gets the new commits from the host in a pack, and pushes them.
func (r run) Deliver(ctx context.Context, q host.DeliverRequest) (host.DeliverAnswer, error) {
	m, err := r.mirror(q.Repository, q.Env)
	if err != nil {
		return host.DeliverAnswer{}, err
	}
	return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the delivery", func(ctx context.Context) (host.DeliverAnswer, error) {
		return r.deliverTo(ctx, m, q)
	})
}

func (r run) deliverTo(ctx context.Context, m host.Mirror, q host.DeliverRequest) (answer host.DeliverAnswer, err error) {
	there, err := r.readTips(ctx, m)
	if err != nil {
		return answer, err
	}
	work := host.Work{Commit: there.Commit, Cloned: there.Cloned, Tips: there.Tips}
	work.Pack = func(ctx context.Context, have []string, to io.Writer) error {
		err := tell(ctx, r.Client, "MakePack", host.PackRequest{Address: m.Address(), Commit: there.Commit, Have: have})
		if err != nil {
			return err
		}
		return r.receive(ctx, to)
	}
	answer, err = m.Deliver(ctx, q, work)
	if err == nil && answer.Commits > 0 {
		err = tell(ctx, r.Client, "RecordDelivered", host.DeliveredRequest{Address: m.Address(), Branch: q.Branch, Commit: answer.Commit})
	}
	return answer, err
}

// receive reads a pack to its end.
func (r run) receive(ctx context.Context, to io.Writer) error {
	for offset := int64(0); ; {
		part, err := ask[host.Part](ctx, r.Client, "ReadPack", offset)
		if err != nil || len(part.Data) == 0 {
			return err
		}
		if offset += int64(len(part.Data)); offset > maxPack {
			return fmt.Errorf("the host sends more than %d GiB", maxPack>>30)
		}
		if _, err := to.Write(part.Data); err != nil {
			return err
		}
	}
}

// OpenPullRequest implements host.Run. The host takes no part in it.
func (r run) OpenPullRequest(ctx context.Context, q host.PullRequestRequest) (host.PullRequestAnswer, error) {
	m, err := r.mirror(q.Repository, q.Env)
	if err != nil {
		return host.PullRequestAnswer{}, err
	}
	return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the pull request", func(ctx context.Context) (host.PullRequestAnswer, error) {
		return m.OpenPullRequest(ctx, q)
	})
}

// bundledMethods are the calls that Clone and Deliver consist of.
func bundledMethods(run host.BundledRun) map[string]method {
	return map[string]method{
		"ReadTips": methodOf(run.ReadTips), "AddToBundle": methodOf(withoutResult(run.AddToBundle)),
		"CloneBundle": methodOf(withoutResult(run.CloneBundle)), "MakePack": methodOf(withoutResult(run.MakePack)),
		"ReadPack": methodOf(run.ReadPack), "RecordDelivered": methodOf(withoutResult(run.RecordDelivered)),
	}
}
