// Package contradiction compares values of Karpenter's chart, and what of it runs, with the
// cluster that plumbline.yaml names.
//
// In go the cluster's own fields, and values or the name that a controller runs under; out
// come the places where they disagree, in one wording. It does no I/O, and knows neither
// files nor clusters.
package contradiction
