// Package offers is what EC2 offers in a region, as Karpenter sees it: instance types, the zones
// that each is offered in, and list prices.
//
// In go a Catalog, which is EC2's own answer, and an EC2NodeClass with the zones of its subnets;
// out come Karpenter's instance types with their offerings, made by the AWS provider's own code.
// Prices are those of the provider's tables, which are list prices of the day that the linked
// version was made: those of spot are the on-demand ones, and those of a region that is not in the
// tables are those of us-east-1. It asks AWS for a Catalog and for
// nothing else, and knows no insufficient capacity, no reservation's free instances and no
// shifted zone.
package offers
