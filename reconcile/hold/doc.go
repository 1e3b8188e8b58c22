// Package hold asks whether a condition of spec.rollout.holdWhile holds: a query of Prometheus that
// has a result, or alerts of Alertmanager that are active.
//
// An Asker asks beside the passes, as often as Every, and a pass reads its last Answers: none ever
// waits for one. Each question has a time-out, its answer is limited in size, no redirect is
// followed, and only the URL that the NodeSync names is asked. What is in a Secret goes to no other
// host (reconcile/grant) and into no message.
package hold
