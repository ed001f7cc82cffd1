package runner

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
)

// A secret answer passes through the database on its way to the worker. It is sealed for a key that lives in the
// worker's memory only, so that neither the database nor a copy of it can tell.

var sealInfo = []byte("symphony answer")

// seal opens what was sealed for it.
type seal struct{ key hpke.PrivateKey }

func newSeal() (*seal, []byte, error) {
	key, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return nil, nil, fmt.Errorf("key for a secret answer: %w", err)
	}
	return &seal{key}, key.PublicKey().Bytes(), nil
}

// SealAnswers encrypts answers for the worker that has made the key.
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

// answers are those of an answer, sealed or not.
func (q *question) answers(a reconcile.RequestAnswer) (map[string][]string, error) {
	if a.Sealed == nil {
		return a.Answers, nil
	}
	if q.seal == nil {
		return nil, fmt.Errorf("%s: sealed, but not for this worker", q.ID())
	}
	plain, err := hpke.Open(q.seal.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), sealInfo, a.Sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.ID(), err)
	}
	var answers map[string][]string
	if err := json.Unmarshal(plain, &answers); err != nil {
		return nil, fmt.Errorf("%s: secret answer: %w", q.ID(), err)
	}
	return answers, nil
}
