// Package images compares the AMIs of EC2NodeClasses with those that AWS publishes.
//
// Its input is an EC2NodeClass, its NodePools, and the AMIs that its terms and the newest alias of its family resolve to.
// Its output is a Class: which AMI each NodePool runs, how old it is, whether it is deprecated, and what is newer. What AWS
// did not answer is unknown, and named. Reader queries AWS; everything else is a function of values. The package changes
// nothing.
package images
