// Package offers returns what EC2 offers in a region, as Karpenter sees it: instance types, the zones in which each is
// offered, and list prices.
//
// Its input is a Catalog, which is EC2's own response, and an EC2NodeClass with the zones of its subnets. Its output is
// Karpenter's instance types with their offerings, made by the AWS provider's own code. The prices come from the
// provider's tables, with the list prices of the day on which the linked version was made: spot prices equal on-demand
// ones, and a region that is not in the tables has the prices of us-east-1. The package queries AWS only for a Catalog.
// It does not consider insufficient capacity, the free instances of reservations, and zonal shifts.
package offers
