package team

import "time"

// MinTerm is the shortest term of a claim.
const MinTerm = time.Minute

// Terms are the times of the protocol.
type Terms struct {
	// Term is for how long a claim of an issue that is worked on holds after each renewal.
	Term time.Duration
	// Watch is the same for a claim of an issue that was handed over.
	Watch time.Duration
}

// Of returns the term of claims with a status.
func (t Terms) Of(s Status) time.Duration {
	if s == Watching {
		return t.Watch
	}
	return t.Term
}

// Short is a quarter of the term of an issue that is worked on, five minutes usually: how soon this machine
// asks the remote again about something that may be otherwise by now.
func (t Terms) Short() time.Duration { return t.Term / 4 }

// Margin is the part of a term at its end in which the holder no longer works: a tenth. Two clocks
// that count the same term may differ by as much, and a push that began before takes a while.
func Margin(term time.Duration) time.Duration { return term / 10 }

// Grace is how much longer than the term another machine waits before it takes a claim: a tenth.
func Grace(term time.Duration) time.Duration { return term / 10 }

// Instant is a moment of one machine, which no other machine and no change of the clock affects.
type Instant struct {
	Boot string // the id of the machine's boot
	// Since is the time since the boot, including the time in which the machine was suspended.
	Since time.Duration
}

// Sub returns the time from an earlier moment to this one, and false if the machine was booted in
// between: then the time is not known.
func (i Instant) Sub(earlier Instant) (time.Duration, bool) {
	if i.Boot != earlier.Boot || i.Since < earlier.Since {
		return 0, false
	}
	return i.Since - earlier.Since, true
}
