// Package capture is what Karpenter's scheduling reads of a cluster, as one value that fits into
// a file: nodes, NodeClaims, definitions, DaemonSets, budgets, volumes, and pods cut down to what
// decides where they run.
//
// Read reads it through any reader, in pages; what may not be read is named and left out. Encode
// and Decode are the file of `plumbline snapshot`. A Capture has no Secret, no ConfigMap, no
// environment, command, image or volume of a pod, and no annotation that scheduling does not
// read: what is kept is listed field by field, so that a field that Kubernetes adds is left out. Of Karpenter's own pods it has
// nothing that values of its chart set, as these may come out of a Secret.
// NewClient serves a Capture to Karpenter's library in place of a cluster. Nothing here decides
// anything.
package capture
