// Package team lets several machines work on one project. Each issue belongs to one machine at a
// time, by a claim in the git remote that all of them share: the remote is the only thing that they
// have in common, and git's push replaces a reference only if it is what the pusher expects.
//
//	machine A ── create refs/symphony/claims/KEY ────────► remote: taken
//	machine B ── create refs/symphony/claims/KEY ────────► remote: refused, A has it
//	machine A ── claim and branch in one atomic push ────► remote: delivered
//
// # Rules
//
//  1. A claim is created, replaced and deleted by compare-and-swap: a [Change] names the object that
//     must be there. Each content has a random token of its own, so that two machines never push the
//     same object.
//  2. Whoever wrote a claim's content holds it. A machine stores each content before it pushes it, so
//     that one that dies in between finds out afterwards that the claim is its own. A copy of its
//     state on a second machine does not know the contents that the first one writes from then on.
//  3. A holder renews its claim when half its term is over. It counts from the time before the push,
//     on a clock that goes on while the machine is suspended. When the term less [Margin] is
//     over, it stops to work.
//  4. Another machine may take the claim when it has seen the same object for the term and [Grace], on
//     its own clock. No machine compares its time with the time of another. Time before a boot counts
//     up to the last look: as long as the object is the same, the claim was not renewed.
//  5. A delivery replaces the claim in the same atomic push. A machine that lost its claim can't
//     deliver, whatever its clocks say. A renewal during the push would be another claim than the
//     push expects: so the claim is renewed before it, for longer than the push may take.
package team
