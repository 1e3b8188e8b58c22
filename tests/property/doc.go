// Package property holds the product's properties against a real API server.
package property
