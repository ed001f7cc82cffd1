package team

import (
	"cmp"
	"time"
)

// holds reports whether this machine may begin to work on the issue of a claim of its own without
// another renewal: more than a quarter of the term is left.
func (m *Member) holds(o Own) bool {
	return o.LostTo == "" && len(o.Tried) == 0 && o.Object != "" && m.timeLeft(o) > m.termOf(o)/4
}

// timeLeft is how long the holder of a claim may work on without another renewal; 0 if that time is over,
// or if the machine was booted since the last renewal. The remote may have any of what was tried, whose
// term may be shorter.
func (m *Member) timeLeft(o Own) time.Duration {
	left := m.timeLeftOf(o.Content, o.Renewed)
	for _, t := range o.Tried {
		left = min(left, m.timeLeftOf(t.Content, t.At))
	}
	return left
}

// timeLeftOf is timeLeft for a content whose push began at a time.
func (m *Member) timeLeftOf(content string, began Instant) time.Duration {
	c, err := Parse(content)
	age, isKnown := m.Clock().Sub(began)
	if err != nil || c.Status == Free || !isKnown {
		return 0
	}
	return max(c.Term()-Margin(c.Term())-age, 0)
}

// termOf is the term of a claim of this machine.
func (m *Member) termOf(o Own) time.Duration {
	c, err := Parse(o.Content)
	if err != nil {
		return 0
	}
	return c.Term()
}

// due reports whether a claim of this machine is to be renewed: half its term is over, the result of a
// push is not known, a person has deleted it, it has to say something else, or it ends too soon.
func (m *Member) due(o Own, k Keep) bool {
	if o.LostTo != "" {
		return false
	}
	c, err := Parse(o.Content)
	if err != nil || len(o.Tried) > 0 || o.Object == "" || c.Status != k.Status || m.timeLeft(o) < k.needs {
		return true
	}
	if k.Commit != "" && c.Commit != k.Commit || k.PullRequest != "" && c.PullRequest != k.PullRequest {
		return true
	}
	if k.Rounds != c.Rounds && len(k.Handled) > 0 {
		return true
	}
	if c.Status == Free { // it does not end
		return false
	}
	age, isKnown := m.Clock().Sub(o.Renewed)
	return !isKnown || age >= c.Term()/2
}

// inherited is what a claim of another machine leaves to the one that takes it: what it has delivered.
func (m *Member) inherited(s Seen) Claim {
	before := m.read(s.Entry)
	return Claim{
		Branch:      before.Branch,
		Commit:      before.Commit,
		PullRequest: before.PullRequest,
		Handled:     before.Handled,
		Origin:      before.Origin,
		Rounds:      before.Rounds,
		WasReleased: before.Released != "" && !m.hasEnded(s),
	}
}

// claimOf is the next content of a claim of this machine, after one of its own, or after what another
// machine has left.
func (m *Member) claimOf(c Claim, k Keep) Claim {
	now := m.Now().UTC().Truncate(time.Second)
	if c.Since.IsZero() {
		c.Since = now
	}
	c.Token = m.NewToken()
	c.Machine = m.Machine
	c.Account = m.Account
	c.Project = m.Project
	c.IssueID = k.ID
	c.Identifier = k.Identifier
	c.Origin = cmp.Or(k.Origin, c.Origin, m.local(k.Issue))
	c.Status = k.Status
	c.Renewed = now
	c.TermMS = max(m.Terms.Of(k.Status), 2*k.needs).Milliseconds()
	c.Released = ""
	if k.Branch != "" {
		c.Branch = k.Branch
	}
	if k.Commit != "" {
		c.Commit = k.Commit
	}
	if k.PullRequest != "" {
		c.PullRequest = k.PullRequest
	}
	if len(k.Handled) > 0 {
		c.Handled = k.Handled[max(0, len(k.Handled)-maxHandled):]
		c.Rounds = k.Rounds
	}
	for len(c.Handled) > 0 && len(c.Content()) > MaxContent { // names of checks may be long
		c.Handled = c.Handled[1:]
	}
	return c
}

// local stands for the origin of an issue that is not known: no other machine finds it.
func (m *Member) local(i Issue) string { return m.Project + " " + i.ID }

// read reads the claim of another machine. What is no claim of its key counts as one of an unknown
// machine.
func (m *Member) read(e Entry) Claim {
	c, err := e.Claim()
	if err == nil {
		return c
	}
	return Claim{Machine: "an unknown machine", TermMS: m.Terms.Term.Milliseconds(), Status: Working}
}

// ends is the age at which the claim of another machine ends.
func (m *Member) ends(s Seen) time.Duration {
	c := m.read(s.Entry)
	if c.Status == Free {
		return 0
	}
	term := min(c.Term(), longest)
	return term + Grace(term)
}

// hasEnded reports whether no machine holds the claim any more, not even one that does not know yet that
// its claim was released: see [Claim.WasReleased].
func (m *Member) hasEnded(s Seen) bool {
	end := m.ends(s)
	c := m.read(s.Entry)
	if c.WasReleased || c.Released != "" {
		end = max(end, m.Terms.Term+Grace(m.Terms.Term))
	}
	age, isKnown := m.ageOf(s)
	return isKnown && age >= end
}

// ageOf is for how long this machine has seen the object of another machine's claim. It is not known if
// this machine was booted since its last look.
func (m *Member) ageOf(s Seen) (age time.Duration, isKnown bool) {
	since, isKnown := m.Clock().Sub(s.Looked)
	return s.Age + since, isKnown
}

// isCurrent reports whether the claim of another machine keeps this one from its issue without another
// look. It is not if this machine has seen the same object for longer than its term, or if it was
// booted since: then only a look tells.
func (m *Member) isCurrent(s Seen) bool {
	age, isKnown := m.ageOf(s)
	return isKnown && age < m.ends(s)
}

// mayBeFree reports whether another machine waited for a review when this one looked last, a few minutes
// ago. If the issue is to be worked on again, that machine may have made its claim free since.
func (m *Member) mayBeFree(s Seen) bool {
	since, isKnown := m.Clock().Sub(s.Looked)
	return m.read(s.Entry).Status == Watching && (!isKnown || since >= m.Terms.Short())
}

// elsewhere describes the claim of another machine.
func (m *Member) elsewhere(s Seen) Elsewhere {
	c := m.read(s.Entry)
	return Elsewhere{
		Holder:    c.Holder(),
		Status:    c.Status,
		Until:     s.FirstAt.Add(m.ends(s)),
		MayBeFree: m.mayBeFree(s),
	}
}
