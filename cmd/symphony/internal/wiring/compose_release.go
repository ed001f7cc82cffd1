package wiring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// ReleasesVar is the environment variable with the URL that tells the newest release.
	// Without it, symphony never asks.
	ReleasesVar = "SYMPHONY_RELEASES"
	// UpgradeHint says how to install a newer release.
	UpgradeHint = "upgrade symphony as you installed it; current runs finish with this version"
)

// NewestRelease asks a URL for the version of the newest release: a text that begins with it.
func NewestRelease(ctx context.Context, address string) (string, error) {
	answer, err := transport.Ask(ctx, http.DefaultClient, http.MethodGet, address, nil, nil)
	version, _, _ := strings.Cut(strings.TrimSpace(string(answer.Body)), "\n")
	switch {
	case err != nil:
	case answer.Status != http.StatusOK:
		err = fmt.Errorf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
	case !semver.IsValid(version):
		err = errors.New("the answer has no version like v1.2.3")
	default:
		return version, nil
	}
	return "", reconcile.NewError("release_unknown", ReleasesVar+": "+err.Error(),
		"compare the URL with where your releases are, or unset "+ReleasesVar+": then symphony does not ask")
}

// OlderThan reports whether a release is newer than the build. Every release is newer than a
// build without a version.
func (b Build) OlderThan(release string) bool { return semver.Compare(b.Version, release) < 0 }
