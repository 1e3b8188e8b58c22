// Package survey determines who owns what: a Helm release, an object of the charts, or a field of one.
//
// Its inputs are objects, and their owners as determined by package owners. Its outputs are Found (what exists of
// Karpenter that plumbline has not installed, and whether it may be adopted), and Drift (which fields differ from the
// chart, and who changed them). Preserve keeps the fields that ignoreDifferences leaves to others.
//
// It consists of pure functions: it reads no cluster, writes nothing, and uses neither Helm nor a client.
package survey
