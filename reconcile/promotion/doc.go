// Package promotion decides which commit of a branch a cluster may take, if the clusters of a fleet take commits in
// rings. Ring after ring takes a commit, each once the rings before it have succeeded on it and it has soaked there.
//
// The input is rings.yaml (which clusters there are, and the rings in their order), the history of the branch, and a
// record of each cluster with its verdicts on commits, signed with that cluster's key. The output is the newest commit
// that passes, and what each newer one waits for. There is no central server: each cluster answers this for itself.
//
// The package also reads rings.yaml, makes and verifies the signed records, and decides when a record is due. It reads
// no repository, writes nothing, and has no clock: Git is reconcile/source.
package promotion
