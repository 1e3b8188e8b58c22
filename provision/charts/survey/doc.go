// Package survey says who owns what: a Helm release, an object of the charts, a field of
// one.
//
// In go objects, as they were read, and whose they are by package owners; out come Found (what
// there is of Karpenter that plumbline has not installed, and whether it may be adopted), and
// Drift (which fields are not as the chart has them, and who changed them). Preserve keeps the
// fields that ignoreDifferences leaves to others.
//
// It is made of functions of values: it reads no cluster, writes nothing, and knows
// neither Helm nor a client.
package survey
