package wiring

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// hookVariables are the variables that every hook of a run has.
var hookVariables = []string{
	"SYMPHONY_ISSUE_IDENTIFIER", "SYMPHONY_ISSUE_ID", "SYMPHONY_ISSUE_TITLE", "SYMPHONY_ISSUE_STATE",
	"SYMPHONY_ISSUE_URL", "SYMPHONY_ISSUE_BRANCH", "SYMPHONY_ATTEMPT", host.RunMark, "SYMPHONY_WORKSPACE",
}

// attentionVariables are the variables of hooks.on_attention.
var attentionVariables = []string{
	"SYMPHONY_ATTENTION_KIND", "SYMPHONY_ATTENTION_TEXT", "SYMPHONY_ATTENTION_ID", "SYMPHONY_ISSUE_IDENTIFIER",
}

// alwaysKnown are variables that the operator, or the program itself, may set for any script.
var alwaysKnown = []string{
	host.RunMark, "SYMPHONY_WORKFLOW", "SYMPHONY_STATE_DIR", "SYMPHONY_MACHINE", "SYMPHONY_MAX_AGENTS",
	"SYMPHONY_RELEASES",
}

// variablesOf returns the variables that symphony sets for a script of a workflow.
func variablesOf(key string) []string {
	switch key {
	case "hooks.on_attention":
		return attentionVariables
	case "hooks.after_create":
		return append(slices.Clone(hookVariables), "SYMPHONY_AGENT_CACHE")
	case "hooks.after_run":
		return append(slices.Clone(hookVariables), "SYMPHONY_OUTCOME")
	case "verify.command":
		return nil
	}
	return hookVariables
}

// variableInScript matches where a script reads a variable such as $SYMPHONY_ISSUE_ID, or
// $ISSUE_ID. One with a default, as in ${SYMPHONY_OUTCOME:-none}, may be missing.
var variableInScript = text.Pattern(`\$\{?((?:SYMPHONY|ISSUE)_[A-Z0-9_]+)(:?[-+?=])?`)

// unsetVariable says which variable of symphony a script reads that nothing sets, and what to write
// instead; empty for none. env is the environment of hooks, as NAME=value.
func unsetVariable(s script, env []string) string {
	known := variablesOf(s.key)
	for _, found := range variableInScript().FindAllStringSubmatch(s.text, -1) {
		name := found[1]
		isOurs := strings.HasPrefix(name, "SYMPHONY_") || slices.Contains(hookVariables, "SYMPHONY_"+name)
		isSet := slices.Contains(known, name) || slices.Contains(alwaysKnown, name) || host.Variable(env, name) != "" ||
			strings.Contains(s.text, name+"=") || strings.Contains(s.text, "read ")
		if found[2] != "" || !isOurs || isSet {
			continue
		}
		unset := "$" + name + " is not set there"
		if known == nil {
			return unset + ": it checks a commit, and gets no variables of the issue, which only hooks have"
		}
		hasAll := func(variable string) bool { return strings.HasPrefix(variable, name+"_") || endsAlike(variable, name) }
		near := cmp.Or(suggest.Misspelt(name, known), text.First(known, hasAll))
		if near != "" {
			return unset + "; did you mean $" + near + "?"
		}
		return unset + ": " + s.key + " has $" + strings.Join(known, ", $")
	}
	return ""
}

// endsAlike reports whether a variable is a name with other words before its last one:
// SYMPHONY_ISSUE_TITLE for SYMPHONY_TITLE.
func endsAlike(variable, name string) bool {
	_, rest, _ := strings.Cut(name, "_")
	return strings.HasSuffix(variable, "_"+rest)
}

// lastExport and lastCommand match a script whose last command only changes its own shell.
var (
	lastExport  = text.Pattern(`(?:^|[\n;]|&&)[ \t]*export[ \t]+([A-Za-z_]\w*)=[^\n;&|]*$`)
	lastCommand = text.Pattern(`(?:^|[\n;]|&&)[ \t]*((?:cd|\.|nvm use)[ \t]+[^\n;&|()"']+)$`)
)

// lostAtEnd says that the last command of a hook has no effect, because what it sets ends with the
// hook; empty if it is another one.
func lostAtEnd(s script) string {
	command := strings.TrimSpace(s.text)
	if found := lastExport().FindStringSubmatch(command); found != nil {
		return "export " + found[1] + " ends with the hook: for agents and other hooks put " + found[1] +
			"=… into the environment file, which symphony doctor names"
	}
	if found := lastCommand().FindStringSubmatch(command); found != nil {
		return found[1] + " ends with the hook, and agents start at the top of their workspace: tell them in the " +
			"prompt to begin their commands with it"
	}
	return ""
}
