//go:build !race

package state

// raceDetector: this binary was built with -race.
const raceDetector = false
