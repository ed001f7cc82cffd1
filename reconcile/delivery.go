package reconcile

import "time"

// Delivery is what remains to be done about the work of an issue's runs: their commits are not in the repository of the workflow yet, or
// the issue is not handed over. If it is not due, nothing remains.
type Delivery struct {
	Due      bool      `json:"due,omitempty"`      // the workspace may contain commits to push
	Tries    int       `json:"tries,omitempty"`    // how many deliveries failed in a row
	FailedAt time.Time `json:"failed_at,omitzero"` // the first of them
	Code     string    `json:"code,omitempty"`     // of the last of them
	Message  string    `json:"message,omitempty"`
	// Host and Root are where the workspace is: the host, empty for this machine, and its workspace root. They stay after a delivery.
	Host string `json:"host,omitempty"`
	Root string `json:"root,omitempty"`
	// Handover is what the agent has asked for and symphony has not finished, or has refused.
	Handover *Handover `json:"handover,omitempty"`
}

// runsOn is the host on which a delivery run works: that of the workspace, unless nothing of it is needed any more.
func (d Delivery) runsOn() string {
	if h := d.Handover; h != nil && !h.Delivers && !h.NeedsVerify("") {
		return ""
	}
	return d.Host
}

// done returns the delivery when nothing remains. What verify has refused stays for the next agent.
func (d Delivery) done() Delivery {
	next := Delivery{Host: d.Host, Root: d.Root}
	if d.Handover.Refused() {
		next.Handover = d.Handover
	}
	return next
}

// DeliveryResult is what became of the commits of one run.
type DeliveryResult struct {
	Done    bool   `json:"done"` // nothing remains to be pushed, and the issue was handed over if the agent asked for it
	Branch  string `json:"branch"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"` // how many are on the branch and not on its base; 0: there was nothing to push
	// PullRequest is the address of the branch's pull request, if the run has opened or found one.
	PullRequest string `json:"pull_request"`
	Code        string `json:"code"` // of a failure; empty if Done is false and no delivery was tried
	Message     string `json:"message"`
	// Handover is what the agent has asked for. It stays when it is done.
	Handover *Handover `json:"handover,omitempty"`
}

// Delivered is what symphony pushed last for an issue.
type Delivered struct {
	URL    string    `json:"-"` // of the repository
	Branch string    `json:"branch"`
	Commit string    `json:"commit"`
	Base   string    `json:"base"`
	At     time.Time `json:"at"`
	// PullRequest is the address of the pull request with the commit, empty if there is none or it is not known yet.
	PullRequest string `json:"pull_request"`
}

// failed returns the delivery after one more failure.
func (d Delivery) failed(code, message string, at time.Time) Delivery {
	if d.Tries == 0 {
		d.FailedAt = at
	}
	d.Due, d.Tries, d.Code, d.Message = true, d.Tries+1, code, message
	return d
}

// Fault returns why a waiting claim waits: the failure of its delivery, or else that of its last run. Both are empty if nothing failed.
func (c Claim) Fault() (code, message string) {
	if c.Delivery.Due && c.Delivery.Code != "" {
		return c.Delivery.Code, c.Delivery.Message
	}
	return c.ErrorCode, c.ErrorMessage
}
