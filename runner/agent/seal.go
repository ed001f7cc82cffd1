package agent

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
)

// A secret answer reaches the worker through the database. It is encrypted for a key whose
// private part exists only in the worker's memory, so that the database does not reveal it.

var sealInfo = []byte("symphony answer")

// newSealKey returns a key for the answers to a question.
func newSealKey() (hpke.PrivateKey, error) { return hpke.DHKEM(ecdh.X25519()).GenerateKey() }

// SealAnswers encrypts answers for the worker that owns the public key.
func SealAnswers(key []byte, answers map[string][]string) ([]byte, error) {
	public, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("key for a secret answer: %w", err)
	}
	plain, err := json.Marshal(answers)
	if err != nil {
		return nil, fmt.Errorf("secret answer: %w", err)
	}
	return hpke.Seal(public, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), sealInfo, plain)
}

// answers returns the answers, decrypted if they are sealed.
func (q *question) answers(a reconcile.RequestAnswer) (map[string][]string, error) {
	if a.Sealed == nil {
		return a.Answers, nil
	}
	if q.key == nil {
		return nil, fmt.Errorf("%s: the answer is encrypted for another worker", q.ID())
	}
	plain, err := hpke.Open(q.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), sealInfo, a.Sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.ID(), err)
	}
	var answers map[string][]string
	if err := json.Unmarshal(plain, &answers); err != nil {
		return nil, fmt.Errorf("%s: secret answer: %w", q.ID(), err)
	}
	return answers, nil
}
