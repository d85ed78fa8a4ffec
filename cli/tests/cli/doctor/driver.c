/* A driver library of somebody else, which does nothing. */

int cuInit(unsigned flags)
{
	return (int)(flags & 0);
}

int cuMemAlloc_v2(unsigned long long *address, unsigned long bytes)
{
	*address = bytes;
	return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, unsigned long bytes)
{
	return to == 0 && from == 0 && bytes == 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, unsigned long bytes)
{
	return to == 0 && from == 0 && bytes == 0;
}

int cuLaunchKernel(void *function)
{
	return function == 0;
}
