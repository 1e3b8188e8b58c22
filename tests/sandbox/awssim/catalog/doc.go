// Package catalog contains what AWS sells in the simulated region: instance types with their sizes, the zones that
// offer them, their prices, and the machine images that Amazon publishes for EKS.
//
// Everything here is a pure function of a region and its zones; nothing changes while the simulator runs. The numbers
// that Karpenter also contains (network limits and on-demand prices of us-east-1, which are used for every region) are
// its own, and a test compares them.
package catalog
