package doctor

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// ghPatience is left to gh, which asks GitHub whether its login still counts.
const ghPatience = 5 * time.Second

const ghNamed = `\bgh\b`

// ghLogin asks gh whether it is logged in, where the workflow has a use for that; nothing to say where it is.
func (at *place) ghLogin(ctx context.Context) []finding {
	if !regexp.MustCompile(ghNamed).Match(at.cfg.Redacted()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ghPatience)
	defer cancel()
	answer, err := at.shell(ctx, "if gh auth status >/dev/null 2>&1; then echo in; else echo out; fi")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return []finding{wary("gh auth status does not answer", "try it; without a network it can't know")}
	case err != nil:
		return failed(err)
	case answer == "in":
		return nil
	}
	return []finding{wary("gh is not logged in to GitHub, and the workflow names it",
		"log in with gh auth login, as this account, or put GH_TOKEN=… into "+at.p.EnvPath())}
}
