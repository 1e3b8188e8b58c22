package awssim

import "strings"

// partition returns the AWS partition of a region, as in its ARNs.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// domain returns the DNS domain of a region's services.
func domain(region string) string {
	if partition(region) == "aws-cn" {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// regionCode shortens a region's name as zone IDs do: eu-west-1 is euw1,
// ap-southeast-2 is apse2.
func regionCode(region string) string {
	var b strings.Builder
	for i, part := range strings.Split(region, "-") {
		switch {
		case i == 0 || len(part) == 1:
			b.WriteString(part)
		default:
			for _, direction := range []string{"north", "south", "east", "west", "central"} {
				if strings.Contains(part, direction) {
					b.WriteByte(direction[0])
				}
			}
		}
	}
	return b.String()
}
