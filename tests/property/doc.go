// Package property holds the product's properties against a real API server and a real Karpenter.
package property
