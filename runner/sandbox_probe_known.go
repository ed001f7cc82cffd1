package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// triedKey is what the journal knows a kind of policy by. What decides whether the machine can sandbox is the kind and
// whether it takes the network away, not the directories.
func triedKey(policy json.RawMessage) string {
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		p.Type = "" // codex will refuse it
	}
	if networkOf(policy) {
		return "sandbox_tried:" + p.Type + ":network"
	}
	return "sandbox_tried:" + p.Type
}

// triedWith says what a sandbox that worked has worked with: this boot, this codex, and what already confines this
// process, which under a schedule may be more than by hand. Empty where not all of it is known.
func triedWith(version string) string {
	boot, err := proc.BootID()
	if err != nil || version == "" {
		return ""
	}
	return strings.Join([]string{boot, version, confinement()}, " ")
}

// confinement tells apart processes that the kernel lets make namespaces and those that it does not, as far as a process
// can see of itself; empty on systems that do not tell.
func confinement() string {
	user, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return ""
	}
	told := []string{user}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return user
	}
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "NoNewPrivs", "Seccomp", "Seccomp_filters":
			told = append(told, strings.TrimSpace(value))
		}
	}
	return strings.Join(told, ",")
}

// noteSandbox keeps with what the sandbox has worked; empty: it no longer does. That it is not kept costs the next run a
// moment.
func (a *attempt) noteSandbox(ctx context.Context, policy json.RawMessage, with string) {
	crash.At("runner.sandbox.before")
	if err := a.Journal.SetMeta(context.WithoutCancel(ctx), triedKey(policy), with); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "sandbox not remembered", slog.String("error", err.Error()))
	}
	crash.At("runner.sandbox.noted")
}
