// Package statetest makes states that are as large as they get, for tests and measurements.
//
// What the program writes is written by the program: one claim and one run of each kind, by package state. Large then
// multiplies their rows by SQL, because ten thousand transactions would take minutes.
package statetest
