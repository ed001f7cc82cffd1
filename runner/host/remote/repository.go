package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	maxPack     = 4 << 30          // bytes that a delivery reads from a host at most
	recordBound = 30 * time.Second // for records that are not essential
)

// Clone implements host.Run. The mirror here fetches from the remote; the mirror on the host
// gets the missing objects in a bundle.
func (r run) Clone(ctx context.Context, q host.CloneRequest) (host.CloneAnswer, error) {
	clone := func(ctx context.Context) (host.CloneAnswer, error) {
		b, err := r.sendBundle(ctx, q)
		if err != nil {
			return host.CloneAnswer{}, err
		}
		err = tell(ctx, r.Client, "CloneBundle", b)
		return b.CloneAnswer, faultThere(err)
	}
	return host.Within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the clone", clone)
}

// Fetch implements host.Run.
func (r run) Fetch(ctx context.Context, q host.CloneRequest) (host.FetchAnswer, error) {
	fetch := func(ctx context.Context) (host.FetchAnswer, error) { return r.fetch(ctx, q) }
	return host.Within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the fetch", fetch)
}

func (r run) fetch(ctx context.Context, q host.CloneRequest) (host.FetchAnswer, error) {
	if q.Look {
		unchanged, err := r.Mirrors.Mirror(q.Repository, q.Env).Unchanged(ctx, q.Branch, q.Delivered)
		if unchanged || err != nil {
			return host.FetchAnswer{}, err
		}
	}
	b, err := r.sendBundle(ctx, q)
	if err != nil {
		return host.FetchAnswer{}, err
	}
	answer, err := ask[host.FetchAnswer](ctx, r.Client, "FetchBundle", b)
	// These are known here, whatever the host says.
	answer.Base = b.Base
	answer.Commit = b.BaseCommit
	if !objectName().MatchString(answer.Dropped) {
		answer.Dropped = ""
	}
	if b.Pushed == "" {
		answer.Pushed = nil
	}
	if answer.Pushed != nil {
		answer.Pushed.Commit = b.Pushed
		answer.Pushed.Why = text.Visible(text.Within(answer.Pushed.Why, maxText))
	}
	return answer, faultThere(err)
}

// sendBundle sends the host the commits that its mirror lacks, and returns the request to use
// them.
func (r run) sendBundle(ctx context.Context, q host.CloneRequest) (b host.BundleRequest, err error) {
	m := r.Mirrors.Mirror(q.Repository, q.Env)
	there, err := r.readTips(ctx, host.TipsRequest{Address: m.Address()})
	if err != nil {
		return b, err
	}
	made, bundle, err := m.Bundle(ctx, q, there.Tips)
	if err != nil {
		return b, err
	}
	size, err := r.send(ctx, bundle)
	err = errors.Join(err, bundle.Close())
	if err != nil {
		return b, err
	}
	return host.BundleRequest{
		BundleAnswer: made,
		Size:         size,
		Address:      m.Address(),
		Branch:       q.Branch,
		Delivered:    q.Delivered,
		Look:         q.Look,
		Name:         q.Repository.Name,
		Email:        q.Repository.Email,
		Env:          q.CheckoutEnv,
	}, nil
}

// faultThere returns an error of the host in the use of a bundle. The remote is fine: it can't
// be the reason.
func faultThere(err error) error {
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil || known.Code != host.CodeRepositoryUnavailable {
		return err
	}
	return &reconcile.Error{
		Code:    codeFailed,
		Message: known.Message,
		Hint:    "look at git on the host",
		Err:     err,
	}
}

// codeFailed is the code of a fault of the host.
const codeFailed = "host_failed"

// readTips reads the host's commits. Git gets these names as arguments.
func (r run) readTips(ctx context.Context, q host.TipsRequest) (host.TipsAnswer, error) {
	answer, err := ask[host.TipsAnswer](ctx, r.Client, "ReadTips", q)
	if err != nil {
		return host.TipsAnswer{}, err
	}
	ids := append(strings.Fields(answer.Cloned.Dropped), answer.Commit, answer.Cloned.Commit, answer.Cloned.Base)
	for _, id := range append(ids, answer.Tips...) {
		if id != "" && !objectName().MatchString(id) {
			return host.TipsAnswer{}, reconcile.NewError(
				codeFailed,
				"the host names a commit "+text.Visible(text.Within(id, 100)),
				"see symphony's log there",
			)
		}
	}
	answer.Cloned.URL = text.Visible(text.Within(answer.Cloned.URL, maxText))
	return answer, nil
}

var objectName = text.Pattern(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// send sends a bundle in parts. It returns the number of bytes.
func (r run) send(ctx context.Context, bundle io.Reader) (size int64, err error) {
	data := make([]byte, host.PartSize)
	for {
		n, readErr := io.ReadFull(bundle, data)
		ended := errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF)
		if readErr != nil && !ended {
			return size, readErr
		}
		if err := tell(ctx, r.Client, "AddToBundle", host.Part{Offset: size, Data: data[:n]}); err != nil {
			return size, err
		}
		size += int64(n)
		if ended || ctx.Err() != nil {
			return size, ctx.Err()
		}
	}
}

// Deliver implements host.Run. The mirror here gets the new commits from the host in a pack,
// and pushes them.
func (r run) Deliver(ctx context.Context, q host.DeliverRequest) (host.DeliverAnswer, error) {
	deliver := func(ctx context.Context) (host.DeliverAnswer, error) {
		return r.deliverTo(ctx, r.Mirrors.Mirror(q.Repository, q.Env), q)
	}
	return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the delivery", deliver)
}

func (r run) deliverTo(
	ctx context.Context,
	m host.Mirror,
	q host.DeliverRequest,
) (answer host.DeliverAnswer, err error) {
	there, err := r.readTips(ctx, host.TipsRequest{Address: m.Address(), Work: true})
	if err != nil {
		return answer, err
	}
	answer, err = m.Deliver(ctx, q, r.workOf(m.Address(), there))
	if err != nil || answer.Commits == 0 || q.Try {
		return answer, err
	}
	bounded, cancel := context.WithTimeout(ctx, recordBound)
	defer cancel()
	// If this fails, the workspace is kept as unsaved, as on this machine.
	at := cmp.Or(answer.Head, answer.Commit) // the next fetch brings the signed copies there
	_ = tell(bounded, r.Client, "RecordDelivered", host.DeliveredRequest{
		Address:    m.Address(),
		Branch:     q.Branch,
		Commit:     at,
		BaseCommit: answer.BaseCommit,
	})
	return answer, nil
}

// workOf returns the work of the workspace there, whose mirror and HEAD were read.
func (r run) workOf(address string, there host.TipsAnswer) host.Work {
	work := host.Work{Commit: there.Commit, Cloned: there.Cloned, Tips: there.Tips}
	work.Pack = func(ctx context.Context, have []string, to io.Writer) error {
		q := host.PackRequest{Address: address, Commit: there.Commit, Have: have}
		made, err := ask[host.PackAnswer](ctx, r.Client, "MakePack", q)
		if known, ok := errors.AsType[*reconcile.Error](err); ok {
			return errors.New(known.Message) // its code is about another operation
		}
		if err != nil {
			return err
		}
		return r.receive(ctx, made.Size, to)
	}
	return work
}

// Keep implements host.Run. It only adds to the mirror here, and needs no remote.
func (r run) Keep(ctx context.Context, q host.KeepRequest) (string, error) {
	keep := func(ctx context.Context) (string, error) {
		m := r.Mirrors.Mirror(q.Repository, q.Env)
		there, err := r.readTips(ctx, host.TipsRequest{Address: m.Address(), Work: true})
		if err != nil {
			return "", err
		}
		return there.Commit, m.Keep(ctx, q.Issue, r.workOf(m.Address(), there))
	}
	return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the copy of the commits", keep)
}

// Forget implements host.Run.
func (r run) Forget(ctx context.Context, q host.KeepRequest) error {
	return r.Mirrors.Mirror(q.Repository, q.Env).Forget(ctx, q.Issue)
}

// receive reads a pack.
func (r run) receive(ctx context.Context, size int64, to io.Writer) error {
	if size > maxPack {
		return fmt.Errorf("the pack has more than %d GiB", maxPack>>30)
	}
	for offset := int64(0); offset < size; offset += host.PartSize {
		part, err := ask[host.Part](ctx, r.Client, "ReadPack", offset)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // a call that is answered ends without an error
			return ctx.Err()
		}
		want := min(host.PartSize, size-offset)
		if int64(len(part.Data)) != want {
			return fmt.Errorf("the pack has %d bytes instead of %d at %d", len(part.Data), want, offset)
		}
		if _, err := to.Write(part.Data); err != nil {
			return err
		}
	}
	return nil
}
