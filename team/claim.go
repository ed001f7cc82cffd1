package team

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Status is what the holder of a claim does with its issue.
type Status string

const (
	// Working: agents work on the issue, or will.
	Working Status = "working"
	// Watching: the issue was handed over, and its holder watches the pull request.
	Watching Status = "watching"
	// Free: nobody works on the issue. The claim says what was delivered for it, and any machine may
	// take it at once and go on from there.
	Free Status = "free"
)

// Claim is the content of a claim in the remote.
type Claim struct {
	// Token is random, and another in each content: no two machines ever push the same content, and
	// whoever stored it before it was pushed holds the claim.
	Token string `json:"token"`
	// Machine is the name of the holder for people, such as buildhost-2; Account the name of its
	// user there, such as ann.
	Machine string `json:"machine"`
	Account string `json:"account"`
	// Project is the project of the tracker (reconcile.Policy.Project), with the id and the
	// identifier of the issue there. Another machine may spell the project otherwise.
	Project    string `json:"project"`
	IssueID    string `json:"issue_id"`
	Identifier string `json:"identifier"`
	// Origin is the issue on every machine: see [Issue].
	Origin string `json:"origin,omitempty"`
	Status Status `json:"status"`
	// Since is when the holder took the issue, Renewed when it last said that it goes on, both by
	// its own clock: for people, never to decide anything.
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"`
	// TermMS is for how many milliseconds the claim holds after each renewal.
	TermMS int64 `json:"term_ms"`
	// Branch and Commit are what the holder pushed last for the issue, PullRequest the address of
	// its pull request: what another machine needs to go on. Empty for none.
	Branch      string `json:"branch,omitempty"`
	Commit      string `json:"commit,omitempty"`
	PullRequest string `json:"pull_request,omitempty"`
	// Handled are the causes for which the pull request has brought the issue back, such as reviews,
	// and Rounds how often it has: another machine does not answer them again.
	Handled []string `json:"handled,omitempty"`
	Rounds  int      `json:"rounds,omitempty"`
	// Released is the token of the claim that a person has made free: its holder, if it still lives,
	// takes it again. Empty for a claim that its holder has made free.
	Released string `json:"released,omitempty"`
	// WasReleased: this machine took the claim after a person had made it free. Whoever had it before may
	// live and not know that: if it finds no claim within its term, it makes its own again. So the claim
	// becomes free when it ends, and is deleted after that term.
	WasReleased bool `json:"was_released,omitempty"`
}

// Term is for how long the claim holds after each renewal.
func (c Claim) Term() time.Duration { return time.Duration(c.TermMS) * time.Millisecond }

// Holder names the machine that holds the claim, with its account: "ann on buildhost-2".
func (c Claim) Holder() string {
	if c.Account == "" {
		return c.Machine
	}
	return c.Account + " on " + c.Machine
}

// MayLive reports whether the holder may still renew the claim, for a machine that has not seen it for its
// term: by the holder's clock, which may be an hour slow.
func (c Claim) MayLive(now time.Time) bool {
	return c.Status != Free && now.Before(c.Renewed.Add(c.Term()+Grace(c.Term())+time.Hour))
}

// MaxContent is the most bytes that a claim may have. Ours have about 600.
const MaxContent = 16 << 10

// maxHandled is how many causes a claim has at most, each of up to 100 bytes: the newest.
const maxHandled = 100

// errContent is the error of a content that is no claim.
var errContent = errors.New("it is no claim of symphony")

// Parse reads the content of a claim. A claim that another program wrote, or a person by hand, is
// an error.
func Parse(content string) (c Claim, err error) {
	if len(content) > MaxContent {
		return c, fmt.Errorf("%w: it has %d bytes", errContent, len(content))
	}
	if err := json.Unmarshal([]byte(content), &c); err != nil {
		return Claim{}, fmt.Errorf("%w: %w", errContent, err)
	}
	if c.Token == "" || c.IssueID == "" || c.Machine == "" || c.Term() < MinTerm {
		return Claim{}, fmt.Errorf("%w: a field is missing", errContent)
	}
	return c, nil
}

// Content writes the claim as Parse reads it.
func (c Claim) Content() string {
	line, err := json.Marshal(c)
	if err != nil {
		panic(err) // a struct of texts, times and a number
	}
	return string(line) + "\n"
}

// keyLength is how many hexadecimal digits a key has.
const keyLength = 20

// Key names the claim of an issue in the remote, such as 3f2a9c1b04de55aa10c7. It is a hash of what the
// tracker calls the issue, because an issue may get another identifier, and because the settings of two
// machines may spell a project in two ways. It is valid in a reference and as a file name.
func Key(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])[:keyLength]
}

// Entry is a claim as the remote has it.
type Entry struct {
	Key     string // as Key returns it
	Object  string // the id of the object in git, which changes with each content
	Content string // as Parse reads it, or anything else that someone has put there
}

// Claim reads the content. The claim of another key, such as a copy that somebody has made, is an error.
func (e Entry) Claim() (Claim, error) {
	c, err := Parse(e.Content)
	if err != nil {
		return Claim{}, err
	}
	if Key(c.Origin) != e.Key {
		return Claim{}, fmt.Errorf("%w: it is a copy of the claim of %s", errContent, c.Identifier)
	}
	return c, nil
}

// Change is a compare-and-swap of one claim.
type Change struct {
	Key string
	// Old is the object that the remote must have; empty if it must have none.
	Old string
	// New is the new content; empty deletes the claim.
	New string
}

// Changed is the result of a Change.
type Changed struct {
	Object string // of the new content; empty if the claim was deleted
	// Refused is why the remote did not carry the change out, in its words, such as "stale info".
	// Empty if it did.
	Refused string
}

// Remote is the git remote as a store of claims.
type Remote interface {
	// Look returns all claims, with one request.
	Look(ctx context.Context) ([]Entry, error)
	// Change carries changes out with one push, each for itself, and returns the results by key. After
	// an error nothing is known of any of them.
	Change(ctx context.Context, changes []Change) (map[string]Changed, error)
}
