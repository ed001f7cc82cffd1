package repository

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// gitHub sends requests to GitHub's API.
type gitHub struct {
	host.GitHub
	by    string // whose rights it uses: gh or $GITHUB_TOKEN
	login string // what to do if GitHub does not accept them
	send  func(ctx context.Context, method, path string, body []byte) (reply, error)
}

const (
	// loginTimeout bounds gh auth status, which asks GitHub; answerTimeout a request.
	loginTimeout  = 30 * time.Second
	answerTimeout = 30 * time.Second
	maxAnswer     = 16 << 20 // bytes
)

// gitHub returns a connection by gh if that is logged in, otherwise by the token.
func (c *commands) gitHub(ctx context.Context, where host.GitHub) (*gitHub, error) {
	name, why := host.GhHost(where.API), "gh is not installed"
	if gh := proc.LookPath("gh", c.env); gh != "" {
		limited, cancel := context.WithTimeout(ctx, loginTimeout)
		defer cancel()
		err := c.run(c.gh(limited, gh, "auth", "status", "--hostname", name))
		if err == nil {
			send := func(ctx context.Context, method, path string, body []byte) (reply, error) {
				return c.sendByGh(ctx, gh, name, method, path, body)
			}
			return &gitHub{where, "gh", "run gh auth login --hostname " + name, send}, nil
		}
		why = fmt.Sprintf("gh is not logged in to %s (%v)", name, err)
	}
	if where.Token == "" {
		return nil, errors.New(why + ", and WORKFLOW.md has no repository.token; run gh auth login --hostname " + name +
			", or set repository.token")
	}
	send := func(ctx context.Context, method, path string, body []byte) (reply, error) {
		return sendByToken(ctx, where, method, path, body)
	}
	return &gitHub{where, "$" + where.TokenVar, "put a valid token into $" + where.TokenVar, send}, nil
}

// gh returns a command of the operator's gh. It gets no repository, and no setting that changes the form of its output.
func (c *commands) gh(ctx context.Context, gh string, args ...string) *exec.Cmd {
	env := append(c.env, "GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1", "CLICOLOR_FORCE=0", "GH_FORCE_TTY=", "GH_DEBUG=")
	return c.program(ctx, gh, env, args)
}

func (c *commands) sendByGh(ctx context.Context, gh, name, method, path string, body []byte) (reply, error) {
	args := []string{"api", "--hostname", name, "--include", "--method", method, "--header", "Accept: " + mediaType}
	if body != nil {
		args = append(args, "--input", "-")
	}
	cmd := c.gh(ctx, gh, append(args, path)...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(body), &out
	failed := c.run(cmd) // also if GitHub refuses the request
	answer, err := http.ReadResponse(bufio.NewReader(&out), nil)
	if err != nil {
		return reply{}, cmp.Or(failed, err)
	}
	return read(answer)
}

const mediaType = "application/vnd.github+json"

func sendByToken(ctx context.Context, g host.GitHub, method, path string, body []byte) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(g.API, "/")+"/"+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", "Bearer "+g.Token)
	request.Header.Set("Accept", mediaType)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "symphony")
	answer, err := (&http.Client{Timeout: answerTimeout}).Do(request)
	if err != nil {
		return reply{}, err
	}
	return read(answer)
}

// reply is GitHub's answer to a request.
type reply struct {
	code   int
	header http.Header
	data   []byte
}

func read(answer *http.Response) (reply, error) {
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return reply{answer.StatusCode, answer.Header, data}, err
}
