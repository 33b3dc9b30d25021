# bytes percent
0 0
64 20
1024 70
65536 100
