package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// ReleasesVar is the environment variable with the URL that tells the newest release. Without it, symphony never asks.
	ReleasesVar = "SYMPHONY_RELEASES"
	// UpgradeHint says how to install a newer release.
	UpgradeHint = "upgrade symphony as you installed it; current runs finish with this version"
	// releaseBound and longestRelease limit the answer.
	releaseBound   = 10 * time.Second
	longestRelease = 1 << 20
)

// NewestRelease asks a URL for the version of the newest release: a text that begins with it, or JSON with tag_name.
func NewestRelease(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseBound)
	defer cancel()
	answer, err := readURL(ctx, address)
	if err != nil {
		if ofURL, ok := errors.AsType[*url.Error](err); ok { // it contains the URL, and a URL may contain a secret
			err = ofURL.Err
		}
		return "", releaseError(err.Error())
	}
	var release struct {
		Tag string `json:"tag_name"`
	}
	version := strings.TrimSpace(string(answer))
	if json.Unmarshal(answer, &release) == nil {
		version = release.Tag
	}
	version, _, _ = strings.Cut(version, "\n")
	if !semver.IsValid(version) {
		return "", releaseError("the answer has no version like v1.2.3")
	}
	return version, nil
}

func releaseError(message string) error {
	return reconcile.NewError("release_unknown", ReleasesVar+": "+message,
		"compare the URL with where your releases are, or unset "+ReleasesVar+": then symphony does not ask")
}

func readURL(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "symphony")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return io.ReadAll(io.LimitReader(res.Body, longestRelease))
}

// OlderThan reports whether a release is newer than the build. Every release is newer than a build without a version.
func (b Build) OlderThan(release string) bool { return semver.Compare(b.Version, release) < 0 }
