package proc

// Standing is what decides whether the workers of a pass that is run from here live on.
type Standing struct {
	// Booted: systemd runs this machine.
	Booted bool
	// Unit is the service or scope that this process stands in, empty if there is none.
	Unit string
	// Manager: this user's own systemd can be reached; Lingers: it stays when nobody is logged in.
	Manager, Lingers bool
	// Root needs no manager of its own.
	Root bool
}

// Look reads where this process stands. It asks nobody.
func Look(env []string) Standing {
	h := lookAround(env)
	return Standing{Booted: h.booted, Unit: h.unit, Manager: h.reachable, Lingers: h.lingers, Root: h.uid == 0}
}
