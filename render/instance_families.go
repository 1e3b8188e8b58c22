package render

import (
	"fmt"
	"strings"
)

// families are those of the instance types that the EC2 API of the linked SDK lists (InstanceType
// in github.com/aws/aws-sdk-go-v2/service/ec2/types/enums.go), each between spaces.
// TestFamiliesAreThoseOfTheSDK holds them to that.
const families = " " +
	"a1 c1 c3 c4 c5 c5a c5ad c5d c5n c6a c6g c6gd c6gn c6i c6id c6in c7a c7g c7gd c7gn c7i c7i-flex c8a " +
	"c8g c8gb c8gd c8gn c8i c8i-flex c8id cc1 cc2 cg1 cr1 d2 d3 d3en dl1 dl2q f1 f2 g2 g3 g3s g4ad g4dn " +
	"g5 g5g g6 g6e g6f g7e gr6 gr6f h1 hi1 hpc6a hpc6id hpc7a hpc7g hpc8a hs1 i2 i3 i3en i4g i4i i7i i7ie " +
	"i8g i8ge im4gn inf1 inf2 is4gen m1 m2 m3 m4 m5 m5a m5ad m5d m5dn m5n m5zn m6a m6g m6gd m6i m6id " +
	"m6idn m6in m7a m7g m7gd m7i m7i-flex m8a m8azn m8g m8gb m8gd m8gn m8i m8i-flex m8id mac-m4 mac-m4max " +
	"mac-m4pro mac1 mac2 mac2-m1ultra mac2-m2 mac2-m2pro p2 p3 p3dn p4d p4de p5 p5e p5en p6-b200 p6-b300 " +
	"p6e-gb200 r3 r4 r5 r5a r5ad r5b r5d r5dn r5n r6a r6g r6gd r6i r6id r6idn r6in r7a r7g r7gd r7i r7iz " +
	"r8a r8g r8gb r8gd r8gn r8i r8i-flex r8id t1 t2 t3 t3a t4g trn1 trn1n trn2 u-12tb1 u-18tb1 u-24tb1 " +
	"u-3tb1 u-6tb1 u-9tb1 u7i-12tb u7i-6tb u7i-8tb u7ib-12tb u7in-16tb u7in-24tb u7in-32tb u7inh-32tb vt1 " +
	"x1 x1e x2gd x2idn x2iedn x2iezn x8aedz x8g x8i z1d "

// warnOfInstances is a sentence on instance families that this plumbline does not know; empty
// where it knows all. AWS brings new ones all the time, so that it refuses none of them.
func warnOfInstances(object Object) string {
	if object.Ref.Kind != NodePool {
		return ""
	}
	requirements := list(object.Desired, "spec", "template", "spec", "requirements")
	for _, key := range []string{labelFamily, labelType} {
		named, _ := listedIn(requirements, key)
		var unknown []string
		for _, value := range named {
			family, _, _ := strings.Cut(value, ".")
			if !strings.Contains(families, " "+family+" ") {
				unknown = append(unknown, value)
			}
		}
		if len(unknown) > 0 {
			return fmt.Sprintf("%s: %s [%s]: this version of plumbline knows no such instance family: check the name, as a family that does not exist launches no node",
				object.Ref, key, someNames(unknown))
		}
	}
	return ""
}
