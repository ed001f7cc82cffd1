package workflow

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// ownVars begins the variables that symphony gives a meaning to.
const ownVars = "SYMPHONY_"

// passEnv reads the names of the variables that the agent's commands get. Of the tracker's key and of symphony's own
// secrets nothing that an agent may be asked to do needs any, and a workflow is often written by more people than may
// see the key: so naming one is an error. Whether a variable is set is not looked at: the schedule has another
// environment than whoever checks the file, and a login profile may set it.
func (r *reader) passEnv(keyVars []string, tracker Secret) []string {
	const key = "agent.pass_env"
	names := []string{}
	r.list(key) // reports what is no list of strings
	f, _, ok := r.get(key)
	if !ok || f.node.Kind != yaml.SequenceNode {
		return names
	}
	for _, item := range f.node.Content {
		line := r.line(item)
		item = deref(item)
		name := strings.TrimSpace(item.Value)
		if item.Kind != yaml.ScalarNode || name == "" || null(item) {
			continue
		}
		bare, dollar := strings.CutPrefix(name, "$")
		switch {
		case dollar && variableName(bare):
			r.fail(CodeInvalid, line, key, strconv.Quote(name)+" is a value, not a name", "write "+bare)
		case !variableName(name):
			r.fail(CodeInvalid, line, key, strconv.Quote(name)+" is no name of a variable", "a name is made of letters, digits and _, and begins with no digit")
		case slices.Contains(keyVars, name) || r.holds(name, tracker):
			r.fail(CodeInvalid, line, key, name+" holds the tracker's key, which no agent gets",
				"remove it; the tool linear_graphql works with that key without showing it")
		case strings.HasPrefix(name, ownVars):
			r.fail(CodeInvalid, line, key, name+" is one of symphony's own variables, which are not chosen here", "remove it")
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	return names
}

// holds reports whether the variable's value, as it is here, has the secret in it.
func (r *reader) holds(name string, secret Secret) bool {
	value, _ := r.env.lookup(name)
	return len(secret) >= shortestKey && strings.Contains(value, secret.Reveal())
}
