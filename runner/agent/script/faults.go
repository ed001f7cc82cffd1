package script

import (
	"fmt"
	"strings"
)

// Faults are the failures of a scripted agent that a prompt can't cause, with their values: the
// flag --fault version=2 is "2" for version.
type Faults map[string]string

// Has reports whether the agent has a fault.
func (f Faults) Has(name string) bool {
	_, is := f[name]
	return is
}

// Flag returns the function of the flag. The usage has a line for each fault, which begins with
// "version=N" or, without a value, with "exit ".
func (f Faults) Flag(usage string) func(string) error {
	return func(text string) error {
		name, value, _ := strings.Cut(text, "=")
		if !strings.Contains(usage, "\n"+name+"=") && !strings.Contains(usage, "\n"+name+" ") {
			return fmt.Errorf("unknown fault %q", name)
		}
		f[name] = value
		return nil
	}
}
