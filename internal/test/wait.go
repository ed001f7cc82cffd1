package test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// All reports whether the tests run that need minutes: those after a commit, in CI. The variable SYMPHONY_TEST is then "all", or
// "each", which also tries every combination of deaths and all stored seeds. Without it, the tests before a commit run.
func All() bool { return os.Getenv("SYMPHONY_TEST") == "all" || Each() }

// Each reports whether tests also try combinations that need hours. See [All].
func Each() bool { return os.Getenv("SYMPHONY_TEST") == "each" }

// Expensive skips a test that is not among those before a commit. See [All].
func Expensive(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("set SYMPHONY_TEST=all to run this test")
	}
}

// Patience is the limit of every wait of a test: two minutes, times SYMPHONY_TEST_PATIENCE, a number above 0. A test that needs less
// on a slow and busy machine ends sooner, because it waits for a state.
func Patience() time.Duration {
	factor := 1.0
	if text := os.Getenv("SYMPHONY_TEST_PATIENCE"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f <= 0 {
			panic(fmt.Sprintf("SYMPHONY_TEST_PATIENCE is %q: must be a number above 0", text))
		}
		factor = f
	}
	return time.Duration(factor * float64(2*time.Minute))
}

// Until waits until holds returns true. After [Patience] it fails the test.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience()); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", Patience(), what)
		}
	}
}
