package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
)

// LabelProof is whether a label counts as set by an operator, for a row of agent.by_label with
// set_by.
type LabelProof struct {
	Label   string `json:"label"`
	LeftOut string `json:"left_out"` // why it does not count; empty if it does
}

// proofsFile contains the proofs of a run, in the directory of the run.
const proofsFile = "labels.json"

// ProveLabels asks the tracker who set labels of an issue, and returns a proof for each label.
// If the tracker does not answer, none counts.
func ProveLabels(
	ctx context.Context,
	t *reconcile.TrackerAdapter,
	issueID string,
	labels, operators []string,
) []LabelProof {
	found, err := askLabels(ctx, t, issueID)
	var proofs []LabelProof
	for _, label := range labels {
		proof := LabelProof{Label: label}
		if err != nil {
			proof.LeftOut = "the tracker did not say who has set it: " + err.Error()
		} else {
			proof.LeftOut = leftOut(found, label, operators)
		}
		proofs = append(proofs, proof)
	}
	return proofs
}

// askLabels asks once more after a fault that may be over.
func askLabels(
	ctx context.Context,
	t *reconcile.TrackerAdapter,
	issueID string,
) ([]reconcile.LabelSet, error) {
	if t.LabelsSet == nil {
		return nil, errors.New(t.Name + " can't be asked")
	}
	return transport.Retry(ctx, func() ([]reconcile.LabelSet, error) { return t.LabelsSet(ctx, issueID) })
}

// leftOut returns why a label does not count, "" if it does. Several labels of an issue may
// have the same name: it is enough that any of them counts.
func leftOut(found []reconcile.LabelSet, label string, operators []string) string {
	why := "the issue no longer has it"
	for _, set := range found {
		if set.Label != label {
			continue
		}
		why = set.NotByOperator(operators)
		if why == "" {
			return ""
		}
	}
	return why
}

// SaveProofs stores the proofs of a run in its directory.
func SaveProofs(dir string, proofs []LabelProof) error {
	data, err := json.Marshal(proofs)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, proofsFile), data, 0o600)
}

// Proofs reads the proofs of a run. They are nil if the run asked for none, or its directory
// is gone.
func Proofs(dir string) ([]LabelProof, error) {
	data, err := os.ReadFile(filepath.Join(dir, proofsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read who has set labels of the issue: %w", err)
	}
	var proofs []LabelProof
	if err := json.Unmarshal(data, &proofs); err != nil {
		return nil, fmt.Errorf("read who has set labels of the issue: %w", err)
	}
	return proofs, nil
}

// ByOperators returns the labels that count.
func ByOperators(proofs []LabelProof) []string {
	var labels []string
	for _, proof := range proofs {
		if proof.LeftOut == "" {
			labels = append(labels, proof.Label)
		}
	}
	return labels
}
