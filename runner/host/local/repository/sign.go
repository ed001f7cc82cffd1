package repository

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// signedRefs is the directory of references to signed commits, by the commits of which they
// are copies.
const signedRefs = "refs/signed/"

// signTimeout is for a commit: a program that waits for a person is given up. Tests lower it.
var signTimeout = time.Minute

// sign puts a signed copy in the place of d.Commit and of each commit below it that is on no
// branch of the remote. A copy keeps the tree, the author, the committer, the dates and the
// message of its original, and its parents are copies. Each commit is signed once: the mirror
// remembers the copy, so that a repeated delivery pushes the same commits.
func (d *delivery) sign(ctx context.Context) error {
	originals, err := d.unsigned(ctx)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "list the commits to sign", err)
	}
	known, err := d.signedCopies(ctx)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "read the signed commits", err)
	}
	var added strings.Builder
	for _, original := range originals {
		if known[original] != "" {
			continue
		}
		signed, err := d.signOne(ctx, original, known)
		if err != nil {
			return d.notSigned(original, err)
		}
		known[original] = signed
		fmt.Fprintf(&added, "create %s%s %s\n", signedRefs, original, signed)
	}
	if added.Len() > 0 {
		err := d.withLock(ctx, func(writer) error {
			cmd := d.localGit(ctx, "update-ref", "--stdin")
			cmd.Stdin = strings.NewReader(added.String())
			return d.run(cmd)
		})
		if err != nil {
			return d.failed(host.CodeDeliveryFailed, "record the signed commits", err)
		}
		crash.At("repository.deliver.signed")
	}
	if signed := known[d.Commit]; signed != "" {
		d.Commit = signed
	}
	return nil
}

// notSigned is the error of a commit that could not be signed.
func (d *delivery) notSigned(original string, err error) error {
	return &reconcile.Error{
		Code:    host.CodeDeliveryFailed,
		Message: fmt.Sprintf("commit %.12s can't be signed: %v", original, err),
		Hint:    "symphony doctor tries user.signingKey and gpg.format of your git",
		Err:     err,
	}
}

// unsigned lists the commits to sign, parents first. Copies, and commits on a branch or a tag
// of the remote, stay as they are.
func (d *delivery) unsigned(ctx context.Context) ([]string, error) {
	out, err := d.output(d.localGit(ctx, "rev-list", "--reverse", "--topo-order", d.Commit,
		"--not", "--branches", "--tags", "--glob="+signedRefs))
	return strings.Fields(out), err
}

// signedCopies returns the copies of commits by their originals.
func (d *delivery) signedCopies(ctx context.Context) (map[string]string, error) {
	list := d.localGit(ctx, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", signedRefs)
	out, err := d.output(list)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for line := range strings.Lines(out) {
		original, signed, _ := strings.Cut(strings.TrimSpace(line), " ")
		known[original] = signed
	}
	return known, nil
}

// signedCopy returns the copy of a commit, empty if it was not signed.
func (m *Mirror) signedCopy(ctx context.Context, original string) (string, error) {
	id, err := m.output(
		m.localGit(ctx, "for-each-ref", "--format=%(objectname)", signedRefs+original),
	)
	if err != nil {
		return "", fmt.Errorf("find the signed copy in %s: %w", m.path, err)
	}
	return id, nil
}

// signOne makes the signed copy of a commit within signTimeout.
func (d *delivery) signOne(ctx context.Context, original string, copies map[string]string) (string, error) {
	took := text.Took(signTimeout.Milliseconds())
	late := fmt.Errorf("the program that signs has not ended within %s", took)
	ctx, cancel := context.WithTimeoutCause(ctx, signTimeout, late)
	defer cancel()
	signed, err := d.copyAndSign(ctx, original, copies)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return "", late
	}
	return signed, err
}

// copyAndSign makes the signed copy of a commit, whose parents have copies or stay as they are.
func (d *delivery) copyAndSign(
	ctx context.Context,
	original string,
	copies map[string]string,
) (string, error) {
	var raw gitcmd.Answer
	read := d.localGit(ctx, "cat-file", "commit", original)
	read.Stdout = &raw
	if err := d.run(read); err != nil {
		return "", err
	}
	c, err := parseCommit(raw.String())
	if err != nil {
		return "", err
	}
	args := []string{"-c", "i18n.commitEncoding=" + c.encoding, "commit-tree", "-S", c.tree, "-F", "-"}
	for _, parent := range c.parents {
		if signed := copies[parent]; signed != "" {
			parent = signed
		}
		args = append(args, "-p", parent)
	}
	cmd := d.signingGit(ctx, args...)
	cmd.Env = append(cmd.Env, c.author.env("AUTHOR")...)
	cmd.Env = append(cmd.Env, c.committer.env("COMMITTER")...)
	cmd.Stdin = strings.NewReader(c.message)
	return d.output(cmd)
}

// signingGit is git in the mirror with the operator's configuration and keys, but without a
// terminal or a display on which a program could ask for a passphrase.
func (c *commands) signingGit(ctx context.Context, args ...string) *exec.Cmd {
	cmd := c.remoteGit(ctx, args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY"}, name)
	})
	return cmd
}

// signature is who made a commit, and when.
type signature struct{ name, email, date string }

// env returns the variables by which git makes a commit in someone's name.
func (s signature) env(who string) []string {
	return []string{
		"GIT_" + who + "_NAME=" + s.name,
		"GIT_" + who + "_EMAIL=" + s.email,
		"GIT_" + who + "_DATE=" + s.date,
	}
}

// commit is a commit as git stores it.
type commit struct {
	tree              string
	parents           []string
	author, committer signature
	encoding, message string
}

// parseCommit reads the output of git cat-file. An earlier signature is left out: it would not
// fit the copy.
func parseCommit(raw string) (c commit, err error) {
	header, message, found := strings.Cut(raw, "\n\n")
	if !found {
		return c, errors.New("it has no message")
	}
	c.message = message
	c.encoding = "UTF-8"
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "tree":
			c.tree = value
		case "parent":
			c.parents = append(c.parents, value)
		case "author":
			c.author = parseSignature(value)
		case "committer":
			c.committer = parseSignature(value)
		case "encoding":
			c.encoding = value
		}
	}
	return c, nil
}

// parseSignature reads a line such as "Ann <ann@example.org> 1700000000 +0100".
func parseSignature(line string) signature {
	name, rest, _ := strings.Cut(line, "<")
	email, date, _ := strings.Cut(rest, ">")
	return signature{
		name:  strings.TrimSpace(name),
		email: email,
		date:  "@" + strings.TrimSpace(date),
	}
}
